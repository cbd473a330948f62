"""The queue's controller of one launch: started, watched, and started again where its rows are on disk.

    started ─► serves ─► over                     it was stopped
       ▲          └─► died ─► in memory: over, with the cause
       │                └───► on disk: back-off ─┐
       └─────────────────────────────────────────┘   at most `max_restarts` times in a row

Invariant: it comes back at the address that it had, so that clients find it again; what was acknowledged is
there, and what was in flight is asked once more by them.
"""

import asyncio
import time
from pathlib import Path
from typing import Self

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.rundir import RunDirError
from headrace.dataflow.record.telemetry import QUEUE_STARTED
from headrace.dataflow.running.runtimes.base import QueueHandle, QueuePlace, ReplicaDied, Runtime
from headrace.dataflow.running.supervisor import STEADY_AFTER_S, STOP_TIMEOUT_S, backoff_s
from headrace.services.base import Report
from headrace.services.errors import ReplicaFailed

SILENCE_S = 60.0
"""After which clients of a queue in memory give it up. One that died is seen at once by who started it; a
silent one may be on a busy machine."""
RETURN_S = 60.0
"""For which clients of a queue on disk wait for it to come back."""


NODES = "nodes"
"""Of a queue on disk: the folder with one for each node of a cluster that rows lie with."""


def require_rows(spec: GraphSpec, directory: Path) -> None:
    """Raises RunDirError where a launch could not have the rows that an earlier one left in `directory`."""
    if not directory.exists():
        return
    if not spec.queue.durable:
        raise RunDirError(
            f"this run's rows are on disk in {directory}: go on with queue.durability=disk, or remove that "
            "folder to give them up"
        )
    if (directory / NODES).is_dir() and spec.ray_address is None:
        raise RunDirError(
            f"rows of this run lie with nodes of a cluster, in {directory / NODES}: go on with "
            "ray_address=auto on a node of one"
        )


class KeptQueue:
    """`async with KeptQueue(...) as queue:` serves at `queue.address`."""

    address: str
    _handle: QueueHandle
    _keeping: asyncio.Task[None]

    def __init__(self, runtime: Runtime, place: QueuePlace, report: Report, *, max_restarts: int) -> None:
        self._runtime = runtime
        self._place = place
        self._report = report
        self._most = max_restarts if place.options.durable else 0
        self._stopping = False

    @property
    def handle(self) -> QueueHandle:
        """Of the controller that serves, or served last."""
        return self._handle

    @property
    def durable(self) -> bool:
        return self._place.options.durable

    @property
    def timeout_s(self) -> float:
        """For its clients: how long it may be silent."""
        return RETURN_S if self._place.options.durable else SILENCE_S

    async def __aenter__(self) -> Self:
        self.address, self._handle = await self._runtime.start_queue(self._place)
        self._report.event(QUEUE_STARTED, address=self.address, pid=self._handle.pid)
        self._keeping = asyncio.create_task(self._keep(), name="keep queue")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        await self._handle.stop(STOP_TIMEOUT_S)
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)

    async def over(self) -> None:
        """Raises what it died of, once it does not come back."""
        await asyncio.shield(self._keeping)

    async def _keep(self) -> None:
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await self._handle.wait()
                return
            except (ReplicaFailed, ReplicaDied) as error:
                failures = 1 if time.monotonic() - started > STEADY_AFTER_S else failures + 1
                await self._again(error, failures)

    async def _again(self, error: Exception, failures: int) -> None:
        """Starts it once more; raises what kept it from that."""
        while True:
            self._report.event("queue_died", reason=str(error), failures=failures)
            if self._stopping or failures > self._most:
                raise error
            await asyncio.sleep(backoff_s(failures))
            try:
                address, self._handle = await self._runtime.start_queue(self._place)
            except (ReplicaFailed, ReplicaDied) as again:
                error, failures = again, failures + 1
                continue
            if address != self.address:
                raise ReplicaFailed(
                    f"the queue came back at {address}, and its clients know it at {self.address}: another "
                    "process has taken its port; resume the run"
                ) from error
            self._report.event("queue_restarted", address=address, pid=self._handle.pid)
            return
