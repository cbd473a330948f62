"""An OpenAI-compatible endpoint, asked for one chat completion at a time of many.

    reply            ─► its text and tokens
    content refused  ─► Refused: this question will never be answered
    429, 5xx, silence ─► asked again after a pause, a bounded number of times ─► JudgeSilent
    401, 403, 404    ─► ReplicaFailed: no question will be answered

Invariant: at most `max_concurrent` requests are in flight, and each has a deadline.
"""

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2

from headrace.services.errors import ReplicaFailed
from headrace.services.judge.retries import pause_s
from headrace.services.options import JudgeOptions
from headrace.services.verdicts.errors import JudgeOdd, JudgeSilent

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


class Refused(Exception):
    """The endpoint will not answer this question; the text says why in a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    text: str
    tokens: int | None
    """Of question and reply together; None: the endpoint did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """A try that may be repeated."""

    reason: str
    retry_after: str | None = None


class Endpoint:
    """Asks questions until it is closed.

    endpoint = Endpoint(options, key)
    reply = await endpoint.ask("Is this right? ...")
    await endpoint.close()
    """

    def __init__(self, options: JudgeOptions, key: str | None) -> None:
        self._options = options
        self._url = f"{options.base_url.rstrip('/')}/chat/completions"
        self._places = asyncio.Semaphore(options.max_concurrent)
        self._client = httpx2.AsyncClient(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            limits=httpx2.Limits(
                max_connections=options.max_concurrent, max_keepalive_connections=options.max_concurrent
            ),
            timeout=None,
        )

    async def ask(self, question: str) -> Reply:
        """Raises Refused, JudgeSilent, JudgeOdd, and ReplicaFailed where the endpoint answers nobody."""
        tried: list[_Again] = []
        while True:
            async with self._places:
                answer = await self._try(question)
            if isinstance(answer, Reply):
                return answer
            tried.append(answer)
            if len(tried) > self._options.retries:
                raise JudgeSilent(f"no reply to {len(tried)} requests; the last: {answer.reason}")
            await asyncio.sleep(
                pause_s(len(tried) - 1, answer.retry_after, draw=random.random(), now=datetime.now(UTC))
            )

    async def _try(self, question: str) -> Reply | _Again:
        timeout_s = self._options.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._client.post(self._url, json=self._body(question))
        except TimeoutError:
            return _Again(reason=f"none within {timeout_s:g} s")
        except httpx2.TransportError as error:
            return _Again(reason=f"{type(error).__name__}: {error}")
        status = response.status_code
        if status in AGAIN or status >= 500:
            reason = f"status {status}{_told(response)}"
            return _Again(reason=reason, retry_after=response.headers.get("retry-after"))
        if status == 200:
            return _reply(response)
        raise self._error(response)

    def _body(self, question: str) -> dict[str, Any]:
        options = self._options
        system = [] if options.system_prompt is None else [_message("system", options.system_prompt)]
        return {
            "model": options.model,
            "messages": [*system, _message("user", question)],
            "max_tokens": options.max_tokens,
            "temperature": options.temperature,
        }

    def _error(self, response: httpx2.Response) -> Exception:
        """What a status means that no repeat changes."""
        status = response.status_code
        if way_out := WAYS_OUT.get(status):
            return ReplicaFailed(f"{self._url} answers with status {status}{_told(response)}; {way_out}")
        if refusal := _refusal(response):
            return Refused(refusal)
        return JudgeOdd(f"{self._url} answers with status {status}{_told(response)}")

    async def close(self) -> None:
        await self._client.aclose()


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _reply(response: httpx2.Response) -> Reply:
    try:
        body = response.json()
        text = body["choices"][0]["message"]["content"] or ""
        tokens = (body.get("usage") or {}).get("total_tokens")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise JudgeOdd(
            f"the reply is no chat completion: {response.text[:80]!r}; base_url is up to before"
            " /chat/completions of an OpenAI-compatible endpoint"
        ) from error
    if not isinstance(text, str):
        raise JudgeOdd(f"the reply's content is no text: {str(text)[:80]!r}")
    return Reply(text=text, tokens=tokens if isinstance(tokens, int) else None)


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
