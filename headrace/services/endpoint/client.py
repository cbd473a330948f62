"""One route of an OpenAI-compatible endpoint, asked many questions at a time.

    200               ─► the body's text
    429, 5xx, silence ─► asked again after a pause, a bounded number of times ─► Silent
    content refused   ─► Refused: this question will never be answered
    401, 403, 404     ─► ReplicaFailed: no question will be answered
    another status    ─► Rejected

Invariant: at most `max_concurrent` requests are in flight, and each has a deadline.
"""

import asyncio
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2

from headrace.services.endpoint.errors import KeyMissing, Refused, Rejected, Silent
from headrace.services.endpoint.retries import pause_s
from headrace.services.errors import ReplicaFailed

WAYS_OUT = {
    401: "set api_key_env to an environment variable that holds a valid key",
    403: "use a key that may ask for this model",
    404: "check base_url and model",
}
"""Statuses that no repeat and no other question changes."""
REFUSALS = frozenset({"content_filter", "content_policy_violation", "context_length_exceeded"})
"""Codes of what is wrong with one question."""
AGAIN = frozenset({408, 425, 429})
"""Statuses below 500 after which the same request may be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """A try that may be repeated."""

    reason: str
    retry_after: str | None = None


class Endpoint:
    """Asks questions until it is closed.

    endpoint = Endpoint(url, "completions", key, timeout_s=60.0, retries=3, max_concurrent=16)
    text = await endpoint.ask({"model": "m", "prompt": [1, 2]})
    await endpoint.close()
    """

    def __init__(
        self,
        base_url: str,
        route: str,
        key: str | None,
        *,
        timeout_s: float,
        retries: int,
        max_concurrent: int,
    ) -> None:
        """`timeout_s` is that of one request, `retries` how often it is repeated."""
        self.url = f"{base_url.rstrip('/')}/{route}"
        self._timeout_s = timeout_s
        self._retries = retries
        self._places = asyncio.Semaphore(max_concurrent)
        self._client = httpx2.AsyncClient(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            limits=httpx2.Limits(max_connections=max_concurrent, max_keepalive_connections=max_concurrent),
            timeout=None,
        )

    async def ask(self, body: Mapping[str, Any]) -> str:
        """The text of the answer's body. Raises EndpointError, and ReplicaFailed where the endpoint answers
        nobody."""
        tried: list[_Again] = []
        while True:
            async with self._places:
                answer = await self._try(body)
            if isinstance(answer, str):
                return answer
            tried.append(answer)
            if len(tried) > self._retries:
                raise Silent(f"no reply to {len(tried)} requests; the last: {answer.reason}")
            await asyncio.sleep(
                pause_s(len(tried) - 1, answer.retry_after, draw=random.random(), now=datetime.now(UTC))
            )

    async def _try(self, body: Mapping[str, Any]) -> str | _Again:
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._client.post(self.url, json=dict(body))
        except TimeoutError:
            return _Again(reason=f"none within {self._timeout_s:g} s")
        except httpx2.TransportError as error:
            return _Again(reason=f"{type(error).__name__}: {error}")
        status = response.status_code
        if status in AGAIN or status >= 500:
            reason = f"status {status}{_told(response)}"
            return _Again(reason=reason, retry_after=response.headers.get("retry-after"))
        if status == 200:
            return response.text
        raise self._error(response)

    def _error(self, response: httpx2.Response) -> Exception:
        """What a status means that no repeat changes."""
        status = response.status_code
        if way_out := WAYS_OUT.get(status):
            return ReplicaFailed(f"{self.url} answers with status {status}{_told(response)}; {way_out}")
        if refusal := _refusal(response):
            return Refused(refusal)
        return Rejected(f"{self.url} answers with status {status}{_told(response)}")

    async def close(self) -> None:
        await self._client.aclose()


def key_in(variable: str | None) -> str | None:
    """The key that an environment variable holds; None where none is named. Raises KeyMissing."""
    if variable is None:
        return None
    if not (key := os.environ.get(variable)):
        raise KeyMissing(
            f"the environment variable {variable} is not set; export it where the run is started,"
            " or remove api_key_env"
        )
    return key


def _fault(response: httpx2.Response) -> dict[str, Any]:
    """The `error` object of a body that has one."""
    try:
        body = response.json()
    except ValueError:
        return {}
    fault = body.get("error", body) if isinstance(body, dict) else {}
    return fault if isinstance(fault, dict) else {"message": str(fault)}


def _told(response: httpx2.Response) -> str:
    """What the endpoint says of a status, for the end of a sentence."""
    message = str(_fault(response).get("message") or response.text).strip()
    return f": {message[:200]}" if message else ""


def _refusal(response: httpx2.Response) -> str | None:
    """The code of a refusal of this question alone; None: it is none."""
    fault = _fault(response)
    if fault.get("code") in REFUSALS:
        return str(fault["code"])
    if response.status_code == 413 or "maximum context length" in str(fault.get("message")):
        return "context_length_exceeded"
    return None
