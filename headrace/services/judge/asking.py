"""A judge's questions as chat completions of an endpoint; see `services/endpoint`."""

import json
from dataclasses import dataclass
from typing import Any

from headrace.services.endpoint.client import Endpoint, key_in
from headrace.services.endpoint.errors import KeyMissing, Rejected, Silent
from headrace.services.options import JudgeOptions
from headrace.services.verdicts.errors import JudgeOdd, JudgeSilent, JudgeUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    text: str
    tokens: int | None
    """Of question and reply together; None: the endpoint did not say."""


class Asking:
    """Asks questions until it is closed.

    asking = Asking(options)
    reply = await asking.ask("Is this right? ...")
    await asking.close()
    """

    def __init__(self, options: JudgeOptions) -> None:
        """Raises JudgeUnusable where the key is missing."""
        self._options = options
        self._endpoint = Endpoint(
            options.base_url,
            "chat/completions",
            _key(options),
            timeout_s=options.timeout_s,
            retries=options.retries,
            max_concurrent=options.max_concurrent,
        )

    async def ask(self, question: str) -> Reply:
        """Raises Refused, JudgeSilent, JudgeOdd, and ReplicaFailed where the endpoint answers nobody."""
        try:
            return _reply(await self._endpoint.ask(self._body(question)))
        except Silent as error:
            raise JudgeSilent(str(error)) from error
        except Rejected as error:
            raise JudgeOdd(str(error)) from error

    def _body(self, question: str) -> dict[str, Any]:
        options = self._options
        system = [] if options.system_prompt is None else [_message("system", options.system_prompt)]
        return {
            "model": options.model,
            "messages": [*system, _message("user", question)],
            "max_tokens": options.max_tokens,
            "temperature": options.temperature,
        }

    async def close(self) -> None:
        await self._endpoint.close()


def _key(options: JudgeOptions) -> str | None:
    try:
        return key_in(options.api_key_env)
    except KeyMissing as error:
        raise JudgeUnusable(str(error)) from error


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _reply(answer: str) -> Reply:
    try:
        body = json.loads(answer)
        text = body["choices"][0]["message"]["content"] or ""
        tokens = (body.get("usage") or {}).get("total_tokens")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise JudgeOdd(
            f"the reply is no chat completion: {answer[:80]!r}; base_url is up to before"
            " /chat/completions of an OpenAI-compatible endpoint"
        ) from error
    if not isinstance(text, str):
        raise JudgeOdd(f"the reply's content is no text: {str(text)[:80]!r}")
    return Reply(text=text, tokens=tokens if isinstance(tokens, int) else None)
