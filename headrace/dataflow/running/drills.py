"""Drills: what an operator asks to go wrong in a launch, where the graph allows it by `drills: true`.

    answers/0 kill           its process is killed, as `kill -9` does
    answers/0 hang ... lift  see `headrace.services.faults`
    queue kill               the queue's controller is killed; of a queue on disk:
    queue full-disk, lift    its journal has no room, until it is lifted
    queue corrupt            a byte of the newest cells that wait to be read is turned over

Invariant: each is an event `asked` with who and why before it is done; none is done where `drills` is false.
"""

from dataclasses import dataclass
from typing import Literal

from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.kept_queue import KeptQueue
from headrace.dataflow.running.runtimes.base import ReplicaDied
from headrace.dataflow.running.supervisor import Supervisor
from headrace.services.base import Report
from headrace.services.errors import ReplicaFailed
from headrace.services.faults import Fault, FaultKind
from headrace.transferqueue import UnknownName

DrillKind = Literal["kill", "lift"] | FaultKind
QUEUE = "queue"

ONLY_FOR: dict[str, tuple[str, ...]] = {"corrupt": ("trainer",), "full-disk": ("trainer",)}
"""Kinds of nodes that a drill has an effect on, where it has none on the others."""
OF_QUEUE = ("kill", "full-disk", "corrupt", "lift")
"""Drills that the queue has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """One drill."""

    target: str
    """A replica, or "queue"."""
    kind: DrillKind
    factor: float = 10.0
    """Of `slow`."""
    times: int = 1
    """Of `error`."""


class Drills:
    """Of one launch."""

    def __init__(self, supervisor: Supervisor, queue: KeptQueue, report: Report, *, allowed: bool) -> None:
        self._supervisor = supervisor
        self._queue = queue
        self._report = report
        self._allowed = allowed

    async def inject(self, order: Ordered, asker: Asker) -> None:
        """Raises Refusal where drills are off, or this one cannot be done."""
        if not self._allowed:
            raise Refusal("drills are off; set drills: true in the graph of a run that may be disturbed")
        handle = self._queue.handle if order.target == QUEUE else self._supervisor.handle(order.target)
        if handle is None:
            raise Refusal(f"no replica {order.target!r} runs now; `headrace ps` lists them")
        if order.kind == "kill" and not handle.has_process:
            raise Refusal(f"{order.target} has no process of its own in the local runtime; use runtime=ray")
        if order.target == QUEUE and order.kind not in OF_QUEUE:
            raise Refusal(f"{order.kind} cannot be asked of the queue; {', '.join(OF_QUEUE)} can")
        if order.target == QUEUE and order.kind != "kill" and not self._queue.durable:
            raise Refusal(f"{order.kind} has no effect on a queue in memory; use queue.durability=disk")
        kind = self._supervisor.kind(order.target)
        if order.target != QUEUE and kind not in ONLY_FOR.get(order.kind, (kind,)):
            raise Refusal(f"{order.kind} has no effect on a {kind}; it has on a trainer")
        self._report.event(
            "asked",
            action=f"inject {order.kind}",
            replica=order.target,
            who=asker.who,
            why=asker.why,
            **({"factor": order.factor} if order.kind == "slow" else {}),
            **({"times": order.times} if order.kind == "error" else {}),
        )
        await self._do(order)

    async def _do(self, order: Ordered) -> None:
        try:
            handle = self._queue.handle if order.target == QUEUE else self._supervisor.handle(order.target)
            if handle is None:
                raise ReplicaDied(f"{order.target} has ended")
            if order.kind == "kill":
                await handle.kill()
            elif order.kind == "lift":
                await handle.inject(None)
            else:
                fault = Fault(kind=order.kind, factor=order.factor, times=order.times)
                await handle.inject(fault)
        except UnknownName as nothing:
            raise Refusal(str(nothing)) from nothing
        except (ReplicaDied, ReplicaFailed) as ended:
            raise Refusal(f"{order.target} ended meanwhile: {ended}") from ended
