"""A scripted engine for tests and simulation: no model, but the contract of a real one.

It answers, delays and fails as `RolloutOptions.fake` says; what it draws depends on a request's seed alone.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import numpy as np

from headrace.services.rollout.engines.base import (
    Carry,
    Completion,
    EngineDied,
    FinishReason,
    OverNewWeights,
    Request,
)
from headrace.services.rollout.engines.ticket import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the fake engine does; the keys of `RolloutOptions.fake`."""

    answer: Literal["echo", "random"] | tuple[int, ...] = "echo"
    """`echo`: the prompt without its last token, then `stop_token_id`; `random`: ids drawn by the request's
    seed; a list of ids: those, for every prompt. Cut at max_new_tokens."""
    vocabulary: int = 13
    """`random` draws ids from 2 to vocabulary - 1."""
    stop_token_id: int = 1
    """Ends an answer that was not cut."""
    mean_tokens: float | None = None
    """`random`: median length of log-normal answers; None: as long as the prompt."""
    length_spread: float = 0.0
    """Standard deviation of the logarithm of the length."""
    seconds_per_token: float = 0.0
    """Time that each token of an answer takes."""
    load_seconds: float = 0.0
    """Time that new weights take."""
    fail_uids: tuple[int, ...] = ()
    """Samples whose generation raises."""
    fail_every: int = 0
    """Every so many-th call raises; 0: none."""
    fail_always: bool = False
    """Every call raises."""
    hang: bool = False
    """No call ever answers."""

    @classmethod
    def parse(cls, script: Mapping[str, Any]) -> Self:
        """Raises ValueError for a key that is not known."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(script) - known)
        if unknown:
            raise ValueError(
                f"fake engine: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        lists = {key: tuple(value) for key, value in script.items() if isinstance(value, (list, tuple))}
        return cls(**{**script, **lists})


class FakeEngine:
    """Plays a `Script`; see `Engine` for the contract."""

    def __init__(
        self,
        script: Script,
        *,
        max_new_tokens: int = 16,
        max_concurrent: int = 256,
        over_new_weights: OverNewWeights = "swap",
        version: int = 0,
    ) -> None:
        self.version = version
        self._script = script
        self._max_new_tokens = max_new_tokens
        self._over_new_weights = over_new_weights
        self._slots = asyncio.Semaphore(max_concurrent)
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._calls = self._running = self._waiting = self._tokens = self._discarded = 0

    async def generate(
        self, requests: Sequence[Request], left: dict[int, Carry] | None = None
    ) -> AsyncGenerator[list[Completion], None]:
        """See `Engine.generate`. Raises RuntimeError where the script says so."""
        self._ensure_open()
        self._calls += 1
        if self._script.fail_always or (
            self._script.fail_every and self._calls % self._script.fail_every == 0
        ):
            raise RuntimeError(f"fake engine: call {self._calls} fails, as scripted")
        ticket = Ticket(requests)
        begun: dict[int, Carry] = {}
        tasks = [asyncio.create_task(self._sample(request, ticket, begun)) for request in requests]
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
                left.update(begun | ticket.not_taken())

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """See `Engine.load`; the weights are not looked at."""
        self._ensure_open()
        if self._over_new_weights == "finish":
            self._may_start.clear()
            await self._idle.wait()
        try:
            await asyncio.sleep(self._script.load_seconds)
            self.version = version
        finally:
            self._may_start.set()

    def stats(self) -> dict[str, float]:
        return {
            "running": float(self._running),
            "waiting": float(self._waiting),
            "generated_tokens": float(self._tokens),
            "discarded_tokens": float(self._discarded),
        }

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()

    def _ensure_open(self) -> None:
        if self._closed:
            raise EngineDied("the engine was closed")

    async def _sample(self, request: Request, ticket: Ticket, begun: dict[int, Carry]) -> None:
        self._waiting += 1
        try:
            await self._may_start.wait()
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._running += 1
        self._idle.clear()
        try:
            ticket.put(request.group, await self._answer(request, begun))
        except Exception as error:
            ticket.fail(error)
        finally:
            self._running -= 1
            self._slots.release()
            if not self._running:
                self._idle.set()

    async def _answer(self, request: Request, begun: dict[int, Carry]) -> Completion:
        """Makes the tokens one by one, each with the version of its moment; cut off, they are in `begun`."""
        if self._script.hang:
            await asyncio.Event().wait()
        if request.uid in self._script.fail_uids:
            raise RuntimeError(f"fake engine: sample {request.uid} fails, as scripted")
        ids = self._token_ids(request)
        most = request.most(self._max_new_tokens)
        whole = len(ids) <= most
        ids = ids[:most]
        versions = list(request.carry["versions"]) if request.carry else []
        began_at = self.version
        try:
            while len(versions) < len(ids):
                await asyncio.sleep(self._script.seconds_per_token)
                if self._over_new_weights == "abort_restart" and self.version != began_at:
                    self._discarded += len(versions)
                    began_at, versions = self.version, []
                    continue
                versions.append(self.version)
                self._tokens += 1
        except asyncio.CancelledError:
            if versions:
                begun[request.uid] = self._made(request, ids[: len(versions)], versions, "length").carry()
            raise
        return self._made(request, ids, versions[: len(ids)], "stop" if whole else "length")

    def _made(
        self, request: Request, ids: np.ndarray, versions: Sequence[int], reason: FinishReason
    ) -> Completion:
        return Completion(
            uid=request.uid,
            token_ids=ids,
            logprobs=np.full(len(ids), -math.log(self._script.vocabulary), dtype=np.float32),
            versions=np.array(versions, dtype=np.int32),
            finish_reason=reason,
        )

    def _token_ids(self, request: Request) -> np.ndarray:
        """int32 [T]: the whole answer, stop token included, before it is cut."""
        script = self._script
        if script.answer == "echo":
            body = np.asarray(request.prompt_ids)[:-1]
        elif script.answer == "random":
            draws = np.random.default_rng(request.seed % (1 << 64))
            middle = len(request.prompt_ids) if script.mean_tokens is None else script.mean_tokens
            length = max(1, round(middle * math.exp(script.length_spread * draws.standard_normal())))
            body = draws.integers(2, script.vocabulary, size=length - 1)
        else:
            body = np.array(script.answer, dtype=np.int32)
        return np.append(body, script.stop_token_id).astype(np.int32)
