"""`runtime: local`: the services of a graph as tasks of one process, for a debugger and for fast tests.

The same services, queue and messages as under Ray; only the processes are missing.
"""

import asyncio
import os
from dataclasses import asdict

import zmq

from headrace.dataflow.running.runtimes.base import QueuePlace
from headrace.dataflow.running.runtimes.disturbed import disturb
from headrace.services.faults import Fault
from headrace.services.host import Assignment, Hosted
from headrace.services.kinds import kind_of
from headrace.services.pulse import Beat
from headrace.transferqueue import Controller

QUEUE_ADDRESS = "inproc://headrace"
KILL_TIMEOUT_S = 5.0


class LocalHandle:
    has_process = False
    node = ""

    def __init__(self, hosted: Hosted) -> None:
        self.pid = os.getpid()
        self._hosted = hosted
        self.running = asyncio.ensure_future(hosted.run())

    async def wait(self) -> None:
        await asyncio.shield(self.running)

    async def drain(self) -> None:
        self._hosted.drain()

    async def look(self) -> Beat:
        return self._hosted.look()

    async def inject(self, fault: Fault | None) -> None:
        self._hosted.inject(fault)

    async def rewrite_weights(self) -> None:
        await self._hosted.rewrite_weights()

    async def kill(self) -> None:
        """A task can be cancelled; a thread that it waits for cannot be ended, and goes on."""
        try:
            await self.stop(KILL_TIMEOUT_S)
        except TimeoutError:
            raise TimeoutError(
                f"it has not ended within {KILL_TIMEOUT_S:g} s and cannot be killed, since the local runtime "
                "has no process of its own for it"
            ) from None

    async def stop(self, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            await self._hosted.stop()
            await asyncio.wait({self.running})


class LocalQueue:
    has_process = False
    node = ""

    def __init__(self, controller: Controller) -> None:
        self.pid = os.getpid()
        self._controller = controller

    async def wait(self) -> None:
        await self._controller.closed()

    async def stop(self, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            await self._controller.close()

    async def kill(self) -> None:
        await self.stop(KILL_TIMEOUT_S)

    async def inject(self, fault: Fault | None) -> None:
        disturb(self._controller, fault)


class LocalRuntime:
    keys = None

    def __init__(self) -> None:
        self.zmq_context = zmq.Context()
        self._threads = 1
        self._running: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        """Nothing to begin."""

    async def start_queue(self, place: QueuePlace) -> tuple[str, LocalQueue]:
        controller = Controller(
            place.directory, QUEUE_ADDRESS, context=self.zmq_context, **asdict(place.options)
        )
        await controller.start()
        return controller.address, LocalQueue(controller)

    async def start(self, assignment: Assignment) -> LocalHandle:
        if kind_of(assignment.kind).computes:
            import torch

            self._threads = max(self._threads, assignment.threads)
            torch.set_num_threads(self._threads)
        handle = LocalHandle(Hosted(assignment, zmq_context=self.zmq_context))
        self._running.add(handle.running)
        handle.running.add_done_callback(self._running.discard)
        return handle

    async def close(self) -> None:
        """Cancels what has not been stopped; what hangs in a thread is left."""
        for running in self._running:
            running.cancel()
        try:
            if self._running:
                await asyncio.wait(set(self._running), timeout=KILL_TIMEOUT_S)
        finally:
            self.zmq_context.destroy(linger=0)
