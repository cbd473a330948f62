"""An engine that asks an OpenAI-compatible server of completions: token ids out and back, never text.

Invariant: what is kept are the ids and log-probabilities that the server says it drew. A server that answers
with text alone, or that read another prompt than it was sent, is refused: its text is never tokenised.

The server's weights are its own, so it serves a policy that nobody trains, under one version.
"""

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.services.endpoint.client import Endpoint, key_in
from headrace.services.errors import ReplicaFailed, ServiceError
from headrace.services.options import OpenaiOptions
from headrace.services.rollout.engines.base import (
    Carry,
    Completion,
    EngineDied,
    FinishReason,
    Request,
    Sampling,
)
from headrace.services.rollout.engines.ticket import Ticket

FINISHED = ("stop", "length")
ROUNDING = 1e-4
"""What a log-probability may lie above 0."""
UNTRUNCATED = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
"""Said in every request: else a server takes those of the model's generation config."""
NEEDED = (
    "engine: openai needs a server that answers return_token_ids and logprobs, such as vLLM 0.10.2 or later; "
    "serve the model with one, or use engine: torch"
)


class OddCompletion(ServiceError):
    """The server answered with something that is no completion of the request."""


class OpenaiEngine:
    """An `Engine`; see there for the contract."""

    def __init__(
        self, options: OpenaiOptions, sampling: Sampling, *, max_concurrent: int, version: int
    ) -> None:
        """Raises KeyMissing."""
        self.version = version
        self._options = options
        self._sampling = sampling
        self._endpoint = Endpoint(
            options.base_url,
            "completions",
            key_in(options.api_key_env),
            timeout_s=options.timeout_s,
            retries=options.retries,
            max_concurrent=max_concurrent,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._tokens = 0

    async def generate(
        self, requests: Sequence[Request], left: dict[int, Carry] | None = None
    ) -> AsyncGenerator[list[Completion], None]:
        """See `Engine.generate`; of an answer a server says nothing before its end.

        Raises EndpointError, OddCompletion, and ReplicaFailed where the server answers nobody or not with
        token ids."""
        if self._closed:
            raise EngineDied("the engine was closed")
        ticket = Ticket(requests)
        tasks = [asyncio.create_task(self._sample(request, ticket)) for request in requests]
        self._tasks.update(tasks)
        try:
            while completions := await ticket.take():
                yield completions
        finally:
            self._tasks.difference_update(tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if left is not None:
                left.update(ticket.not_taken())

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """Raises ReplicaFailed: nothing can be loaded into a server."""
        raise ReplicaFailed(
            f"engine: openai got version {version} of its policy, and a server keeps its own weights; "
            "use engine: torch for a policy that a trainer trains"
        )

    def stats(self) -> dict[str, float]:
        running = sum(not task.done() for task in self._tasks)
        return {"running": float(running), "generated_tokens": float(self._tokens)}

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._endpoint.close()

    async def _sample(self, request: Request, ticket: Ticket) -> None:
        try:
            ticket.put(request.group, await self._completion(request))
        except asyncio.CancelledError:
            ticket.fail(EngineDied("the engine was closed"))
            raise
        except Exception as error:
            ticket.fail(error)

    async def _completion(self, request: Request) -> Completion:
        kept = _kept(request)
        prompt = [*map(int, request.prompt_ids), *kept.token_ids.tolist()]
        answer = await self._endpoint.ask(self._body(request, prompt, drawn=len(kept.token_ids)))
        ids, logprobs, reason = _read(answer, prompt)
        self._tokens += len(ids)
        return Completion(
            uid=request.uid,
            token_ids=np.append(kept.token_ids, ids).astype(np.int32),
            logprobs=np.append(kept.logprobs, logprobs).astype(np.float32),
            versions=np.append(kept.versions, np.full(len(ids), self.version)).astype(np.int32),
            finish_reason=reason,
        )

    def _body(self, request: Request, prompt: list[int], *, drawn: int) -> dict[str, Any]:
        return {
            "model": self._options.model,
            "prompt": prompt,
            "max_tokens": request.most(self._sampling.max_new_tokens) - drawn,
            "temperature": self._sampling.temperature,
            **UNTRUNCATED,
            "seed": request.seed,
            "logprobs": 0,
            "return_token_ids": True,
        }


def _kept(request: Request) -> Completion:
    """What an interrupted generation of the request has already; arrays of length 0 where it is new."""
    carry = request.carry or {"token_ids": (), "logprobs": (), "versions": ()}
    return Completion(
        uid=request.uid,
        token_ids=np.asarray(carry["token_ids"], dtype=np.int32),
        logprobs=np.asarray(carry["logprobs"], dtype=np.float32),
        versions=np.asarray(carry["versions"], dtype=np.int32),
        finish_reason="length",
    )


def _read(answer: str, prompt: list[int]) -> tuple[list[int], list[float], FinishReason]:
    """Ids, log-probabilities and reason of the only choice of an answer to `prompt`."""
    choice = _choice(answer)
    ids, logprobs = choice["token_ids"], choice["logprobs"].get("token_logprobs")
    for what, given in (("the token ids", ids), ("the log-probabilities", logprobs)):
        if given is None:
            raise ReplicaFailed(f"the server answers without {what} that it drew; {NEEDED}")
    if (read := choice.get("prompt_token_ids")) not in (None, prompt):
        raise ReplicaFailed(
            f"the server read another prompt than it was sent ({len(read)} tokens for {len(prompt)}); serve "
            "a model of the policy's tokens, and let the server add none"
        )
    _check(ids, logprobs, choice["finish_reason"])
    return ids, logprobs, choice["finish_reason"]


def _choice(answer: str) -> dict[str, Any]:
    """The only choice of an answer, its log-probabilities a mapping. Raises OddCompletion."""
    try:
        choice = json.loads(answer)["choices"][0]
        logprobs = dict(choice.get("logprobs") or {})
        known = {"token_ids": choice.get("token_ids"), "finish_reason": choice["finish_reason"]}
        return {**choice, **known, "logprobs": logprobs}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise OddCompletion(
            f"the answer is no completion: {answer[:80]!r}; base_url is up to before /completions of an "
            "OpenAI-compatible server"
        ) from error


def _check(ids: Any, logprobs: Any, reason: Any) -> None:
    """Raises OddCompletion."""
    if not isinstance(ids, list) or not isinstance(logprobs, list):
        raise OddCompletion(f"the completion's tokens are no lists: {str(ids)[:40]}, {str(logprobs)[:40]}")
    if reason not in FINISHED:
        raise OddCompletion(f"the completion ended by {reason!r}; allowed are {' and '.join(FINISHED)}")
    if not ids or len(ids) != len(logprobs):
        raise OddCompletion(f"the completion has {len(ids)} token ids and {len(logprobs)} log-probabilities")
    if not all(isinstance(each, int) for each in ids):
        raise OddCompletion(f"the completion's token ids are no whole numbers: {str(ids)[:80]}")
    if not all(isinstance(each, int | float) and -math.inf < each <= ROUNDING for each in logprobs):
        raise OddCompletion(f"the completion's log-probabilities are none: {str(logprobs)[:80]}")
