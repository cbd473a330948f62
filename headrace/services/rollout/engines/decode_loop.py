"""The loop of an engine that decodes in this process: orders in, steps in one worker thread, completions out.

States: open (idle or decoding) -> died | closed. The event loop stays free; orders (samples, cancellations,
weights) take effect between steps. An error in a step or in a load kills the engine: every waiting and later
call raises `EngineDied` from it.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.services.rollout.engines.base import Carry, Completion, EngineDied, OverNewWeights, Request
from headrace.services.rollout.engines.decoding.slots import Sample
from headrace.services.rollout.engines.ticket import Ticket

Finished = tuple[Sample, Completion]


class Decoder(Protocol):
    """What steps: between two calls every added sample is waiting, running, or finished.

    Used by one thread at a time; only the checks and the figures are asked for beside a call in progress.
    """

    @property
    def version(self) -> int: ...

    @property
    def running(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    def check(self, request: Request) -> None:
        """Raises ValueError for a request that the model cannot take."""
        ...

    def check_weights(self, weights: Mapping[str, Any]) -> None:
        """Raises ValueError for weights that do not fit by name, shape and type."""
        ...

    def add(self, samples: Iterable[Sample]) -> None:
        """Queues samples; a carry that is already whole finishes at once."""
        ...

    def cancel(self, owner: object) -> dict[int, Carry]:
        """Forgets every sample of `owner`; by uid, the tokens of those that it has begun."""
        ...

    def interrupt(self, *, keep: bool) -> None:
        """Puts all running samples first in line, to be prefilled anew with their tokens or without."""
        ...

    def use_weights(self, version: int, weights: Mapping[str, Any]) -> None:
        """Later tokens are of `weights` and carry `version`; samples without a token begin under them."""
        ...

    def run(self, interrupted: Callable[[], bool], *, start: bool) -> list[Finished]:
        """Steps until samples finish, nothing is left, or `interrupted`; starts samples only if `start`."""
        ...

    def stats(self) -> dict[str, float]: ...

    def close(self) -> None:
        """Lets go of the model; nothing is called after it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    version: int
    weights: Mapping[str, Any]
    done: asyncio.Future[None]


class DecodeLoop:
    """Continuous batching by a `Decoder`; see `Engine` for the contract."""

    def __init__(self, decoder: Decoder, *, over_new_weights: OverNewWeights) -> None:
        self._decoder = decoder
        self._over_new_weights = over_new_weights
        self._orders: deque[Callable[[], None]] = deque()
        self._loads: deque[_Load] = deque()
        self._loaded: list[asyncio.Future[None]] = []
        """Whom to tell of weights that are in: these are the decoder's alone from there on."""
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

    async def generate(
        self, requests: Sequence[Request], left: dict[int, Carry] | None = None
    ) -> AsyncGenerator[list[Completion], None]:
        """See `Engine.generate`. Raises ValueError for a request that the model cannot take."""
        for request in requests:
            self._decoder.check(request)
        ticket = Ticket(requests)
        self._order(lambda: self._decoder.add(Sample(request=r, owner=ticket) for r in requests))
        self._tickets.add(ticket)
        try:
            while completions := await ticket.take():
                yield completions
        finally:
            self._tickets.discard(ticket)
            begun = await self._take_back(ticket) if not ticket.is_complete() else {}
            if left is not None:
                left.update(begun | ticket.not_taken())

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """See `Engine.load`. Raises ValueError, and keeps the old weights, if they do not fit by name."""
        self._decoder.check_weights(weights)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ensure_open()
        self._loads.append(_Load(version=version, weights=weights, done=done))
        self._wake_loop()
        await done

    def stats(self) -> dict[str, float]:
        """Samples running and waiting, what the decoder counts, and busy seconds since the start."""
        decoder = self._decoder
        return {
            "running": float(decoder.running),
            "waiting": float(decoder.waiting),
            **decoder.stats(),
            "busy_s": self._busy_s,
        }

    async def close(self) -> None:
        """Stops after the step in progress; waiting calls raise `EngineDied`."""
        self._die(EngineDied("the engine was closed"))
        if self._loop is not None:
            await self._loop
        await asyncio.to_thread(self._thread.shutdown)
        await asyncio.to_thread(self._decoder.close)

    async def _take_back(self, ticket: Ticket) -> dict[int, Carry]:
        """Has the decoder forget a call; what it had of it, nothing where the engine has died."""
        loop = asyncio.get_running_loop()
        given: asyncio.Future[dict[int, Carry]] = loop.create_future()

        def take() -> None:
            loop.call_soon_threadsafe(given.set_result, self._decoder.cancel(ticket))

        if self._dead is None:
            self._order(take)
            assert self._loop is not None
            await asyncio.wait({given, self._loop}, return_when=asyncio.FIRST_COMPLETED)
        return given.result() if given.done() else {}

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
                finished = await loop.run_in_executor(self._thread, self._turn)
            except Exception as error:
                self._die(EngineDied(f"decoding failed: {type(error).__name__}: {error}"), error)
                return
            self._deliver(finished)
            if not (self._decoder.running or self._decoder.waiting or self._loads):
                await self._wake.wait()

    def _turn(self) -> list[Finished]:
        """In the worker thread: carries out orders and loads, then decodes until something finishes."""
        began = time.perf_counter()
        self._interrupt.clear()
        while self._orders:
            self._orders.popleft()()
        self._load_waiting()
        stop = self._interrupt.is_set if not self._loaded else (lambda: True)
        finished = self._decoder.run(stop, start=not self._loads)
        self._busy_s += time.perf_counter() - began
        return finished

    def _load_waiting(self) -> None:
        """Loads what may be loaded now; a load that fails stays first in line, to be told of it."""
        while self._loads and (self._over_new_weights != "finish" or not self._decoder.running):
            load = self._loads[0]
            if self._over_new_weights in ("abort_keep", "abort_restart"):
                self._decoder.interrupt(keep=self._over_new_weights == "abort_keep")
            self._decoder.use_weights(load.version, load.weights)
            self._loaded.append(self._loads.popleft().done)

    def _deliver(self, finished: Sequence[Finished]) -> None:
        loaded, self._loaded = self._loaded, []
        for done in loaded:
            if not done.done():
                done.set_result(None)
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
        for done in (*self._loaded, *(load.done for load in tuple(self._loads))):
            if not done.done():
                done.set_exception(death)
