"""Who may come in: the gate before every route of a control API, those that do not exist among them.

    Authorization: Bearer TOKEN       a program
    /?token=TOKEN                     a browser, once: it gets a cookie, and is sent on without the token
    Cookie                            the browser from then on; it changes something from a page of ours only

Invariant: no answer but 401 goes to who shows neither. The cookie is no token: it opens this launch alone,
and ends with it.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.dataflow.control.door import ONWARD

WHO = "x-headrace-who"
BROWSER = "browser"
LONGEST_WHO = 200
READS = ("GET", "HEAD", "OPTIONS")

STRANGER = (
    "the token is missing or not this launch's; it stands in control.json of the run directory, and "
    "`headrace dashboard` prints a link with it"
)
FOREIGN = "a browser may ask for changes from a page of this API only; send the token as a Bearer instead"

ALWAYS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every answer."""


class Gate:
    """Wraps an application; see the module."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token
        self._cookie = f"headrace-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            answer = self._answer(scope, headers)
        except UnicodeError:
            answer = _said(401, STRANGER)
        if answer is None:
            await self._app(scope, receive, _with_headers(send))
        else:
            await answer(scope, receive, _with_headers(send))

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """None: it may come in."""
        if self._has_token(headers):
            return None
        if scope["method"] in ("GET", "HEAD") and (given := _query(scope)).get("token"):
            if not self._is_token(given["token"]):
                return _said(401, STRANGER)
            return self._welcome(Request(scope), given.get("who", ""))
        if (who := self._known(headers)) is None:
            return _said(401, STRANGER)
        if scope["method"] not in READS and not _is_own(headers):
            return _said(403, FOREIGN)
        MutableHeaders(scope=scope).setdefault(WHO, who)
        return None

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(given.strip())

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    def _welcome(self, request: Request, who: str) -> Response:
        """A browser that another site sent here would not show the cookie on a redirect: a page of ours sends
        it on."""
        left = [(k, v) for k, v in request.query_params.multi_items() if k not in ("token", "who")]
        path = f"/{request.url.path.lstrip('/')}" + (f"?{urlencode(left)}" if left else "")
        answer: Response = RedirectResponse(path, status_code=303)
        if request.headers.get("sec-fetch-site") == "cross-site":
            answer = HTMLResponse(ONWARD.format(path=quote(path, safe="/?=&%+")))
        answer.set_cookie(
            self._cookie, self._pass(who or BROWSER), httponly=True, samesite="strict", path="/"
        )
        return answer

    def _pass(self, who: str) -> str:
        """What the cookie holds: who it is, signed with the token."""
        name = quote(who[:LONGEST_WHO], safe="")
        return f"{name}.{hmac.new(self._token.encode(), f'cookie {name}'.encode(), 'sha256').hexdigest()}"

    def _known(self, headers: Headers) -> str | None:
        """Who the cookie was made for; None: there is none of ours. Others of this host may look like
        anything: ports share them."""
        found = cookie_parser(headers.get("cookie", "")).get(self._cookie)
        if found is None:
            return None
        who = unquote(found.rpartition(".")[0])
        if not secrets.compare_digest(found.encode(), self._pass(who).encode()):
            return None
        return who.encode("ascii", "replace").decode()


def _query(scope: Scope) -> Mapping[str, str]:
    """The last value of each name."""
    found = parse_qs(scope["query_string"].decode("latin-1"))
    return {name: values[-1] for name, values in found.items()}


def _is_own(headers: Headers) -> bool:
    """Whether the page that asks was served at the address that is asked."""
    return urlsplit(headers.get("origin", "")).netloc == headers.get("host")


def _said(status: int, detail: str) -> Response:
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"detail": detail}, status_code=status, headers=headers)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in ALWAYS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
