"""The in-process engine: any Hugging Face causal LM behind one decode loop.

States: open (idle or decoding) -> died | closed. Steps run in one worker thread and the event loop stays
free; orders (samples, cancellations, weights) take effect between steps. An error in a step kills the
engine: every waiting and later call raises `EngineDied` from it.

    engine = TorchEngine(model, Sampling(max_new_tokens=32), max_concurrent=256)
    async for completions in engine.generate(requests): ...
    await engine.load(1, weights)
    await engine.close()
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from headrace.services.models.in_place import check_weights, copy_weights
from headrace.services.rollout.engines.base import (
    Completion,
    EngineDied,
    OverNewWeights,
    Request,
    Sampling,
)
from headrace.services.rollout.engines.decoding.decoder import Decoder, Finished
from headrace.services.rollout.engines.decoding.slots import Sample
from headrace.services.rollout.engines.ticket import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    version: int
    weights: Mapping[str, torch.Tensor]
    done: asyncio.Future[None]


class TorchEngine:
    """Continuous batching of `model`; see `Engine` for the contract."""

    def __init__(
        self,
        model: PreTrainedModel,
        sampling: Sampling,
        *,
        max_concurrent: int = 256,
        over_new_weights: OverNewWeights = "swap",
        version: int = 0,
    ) -> None:
        check_sampling(sampling, max_concurrent)
        self._model = model
        self._sampling = sampling
        self._over_new_weights = over_new_weights
        self._decoder = Decoder(model, sampling, max_concurrent=max_concurrent, version=version)
        self._orders: deque[Callable[[], None]] = deque()
        self._loads: deque[_Load] = deque()
        self._tickets: set[Ticket] = set()
        self._wake = asyncio.Event()
        self._interrupt = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decode")
        self._loop: asyncio.Task[None] | None = None
        self._dead: EngineDied | None = None
        self._busy_s = 0.0

    @property
    def version(self) -> int:
        """Version of the weights that the next token is made with."""
        return self._decoder.version

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[list[Completion], None]:
        """See `Engine.generate`. Raises ValueError for a request that the model cannot take."""
        for request in requests:
            self._check(request)
        ticket = Ticket(requests)
        self._order(lambda: self._decoder.add(Sample(request=r, owner=ticket) for r in requests))
        self._tickets.add(ticket)
        try:
            while completions := await ticket.take():
                yield completions
        finally:
            self._tickets.discard(ticket)
            if not ticket.is_complete() and self._dead is None:
                self._order(lambda: self._decoder.cancel(ticket))

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """See `Engine.load`. Raises ValueError, and keeps the old weights, if they do not fit by name."""
        check_weights(self._model, weights)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ensure_open()
        self._loads.append(_Load(version=version, weights=weights, done=done))
        self._wake_loop()
        await done

    def stats(self) -> dict[str, float]:
        """Samples running and waiting; since the start, tokens made and discarded, steps and busy seconds."""
        decoder = self._decoder
        return {
            "running": float(decoder.running),
            "waiting": float(decoder.waiting),
            "generated_tokens": float(decoder.generated_tokens),
            "prefill_tokens": float(decoder.prefill_tokens),
            "discarded_tokens": float(decoder.discarded_tokens),
            "decode_steps": float(decoder.decode_steps),
            "busy_s": self._busy_s,
        }

    async def close(self) -> None:
        """Stops after the step in progress; waiting calls raise `EngineDied`."""
        self._die(EngineDied("the engine was closed"))
        if self._loop is not None:
            await self._loop
        self._thread.shutdown()

    def _order(self, order: Callable[[], None]) -> None:
        """Has `order` run in the worker thread, between steps."""
        self._ensure_open()
        self._orders.append(order)
        self._wake_loop()

    def _ensure_open(self) -> None:
        if self._dead is not None:
            raise EngineDied(str(self._dead)) from self._dead.__cause__

    def _wake_loop(self) -> None:
        self._interrupt.set()
        self._wake.set()
        if self._loop is None:
            self._loop = asyncio.create_task(self._decode(), name="decode loop")

    async def _decode(self) -> None:
        """Consumes orders, produces completions; sleeps on `_wake` while there is nothing to do."""
        loop = asyncio.get_running_loop()
        while self._dead is None:
            self._wake.clear()
            try:
                finished, loaded = await loop.run_in_executor(self._thread, self._turn)
            except Exception as error:
                self._die(EngineDied(f"decoding failed: {type(error).__name__}: {error}"), error)
                return
            self._deliver(finished, loaded)
            if not (self._decoder.running or self._decoder.waiting or self._loads):
                await self._wake.wait()

    def _turn(self) -> tuple[list[Finished], list[_Load]]:
        """In the worker thread: carries out orders and loads, then decodes until something finishes."""
        began = time.perf_counter()
        self._interrupt.clear()
        while self._orders:
            self._orders.popleft()()
        loaded = self._load_waiting()
        stop = self._interrupt.is_set if not loaded else (lambda: True)
        finished = self._decoder.run(stop, start=not self._loads)
        self._busy_s += time.perf_counter() - began
        return finished, loaded

    def _load_waiting(self) -> list[_Load]:
        """Loads what may be loaded now; a load that fails stays first in line, to be told of it."""
        loaded: list[_Load] = []
        while self._loads and (self._over_new_weights != "finish" or not self._decoder.running):
            load = self._loads[0]
            if self._over_new_weights in ("abort_keep", "abort_restart"):
                self._decoder.interrupt(keep=self._over_new_weights == "abort_keep")
            self._decoder.use_weights(load.version, lambda load=load: copy_weights(self._model, load.weights))
            loaded.append(self._loads.popleft())
        return loaded

    def _deliver(self, finished: Sequence[Finished], loaded: Sequence[_Load]) -> None:
        for load in loaded:
            if not load.done.done():
                load.done.set_result(None)
        for sample, completion in finished:
            if isinstance(sample.owner, Ticket):
                sample.owner.put(sample.request.group, completion)

    def _die(self, death: EngineDied, cause: BaseException | None = None) -> None:
        """Fails every waiting call; the engine takes no more."""
        if self._dead is not None:
            return
        death.__cause__ = cause
        self._dead = death
        self._interrupt.set()
        self._wake.set()
        for ticket in self._tickets:
            ticket.fail(death)
        for load in self._loads:
            if not load.done.done():
                load.done.set_exception(death)

    def _check(self, request: Request) -> None:
        ids = np.asarray(request.prompt_ids)
        vocabulary, longest = self._decoder.model.vocabulary, self._decoder.model.max_tokens
        if not len(ids) or ids.min() < 0 or ids.max() >= vocabulary:
            raise ValueError(
                f"sample {request.uid}: a prompt is one or more token ids from 0 to {vocabulary - 1}, "
                f"got {ids.tolist()[:8]}; use the tokenizer of the policy's model"
            )
        if len(ids) + self._sampling.max_new_tokens > longest:
            raise ValueError(
                f"sample {request.uid}: {len(ids)} prompt tokens and {self._sampling.max_new_tokens} new "
                f"ones exceed the model's {longest} positions; shorten the prompt or lower max_new_tokens"
            )
        if request.carry is not None:
            lengths = {name: len(request.carry[name]) for name in ("token_ids", "logprobs", "versions")}
            if len(set(lengths.values())) != 1:
                raise ValueError(f"sample {request.uid}: the parts of its carry differ in length: {lengths}")


def check_sampling(sampling: Sampling, max_concurrent: int) -> None:
    """Raises ValueError for a value that no token can be drawn with."""
    if not sampling.temperature > 0:
        raise ValueError(
            f"temperature is {sampling.temperature}; it must be above 0, since log-probabilities are taken "
            "under it; use a small one, such as 0.01, for nearly greedy answers"
        )
    if sampling.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {sampling.max_new_tokens}; it must be 1 or more")
    if max_concurrent < 1:
        raise ValueError(f"max_concurrent is {max_concurrent}; it must be 1 or more")
