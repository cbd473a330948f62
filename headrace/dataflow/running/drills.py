"""Drills: what an operator asks to go wrong in a launch, where the graph allows it by `drills: true`.

    answers/0 kill           its process is killed, as `kill -9` does
    queue kill               the queue's controller is
    answers/0 hang ... lift  see `headrace.services.faults`

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

DrillKind = Literal["kill", "lift"] | FaultKind
QUEUE = "queue"

ONLY_FOR: dict[str, tuple[str, ...]] = {"corrupt": ("trainer",), "full-disk": ("trainer",)}
"""Kinds of nodes that a drill has an effect on, where it has none on the others."""


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
        if order.kind != "kill" and order.target == QUEUE:
            raise Refusal(f"{order.kind} cannot be asked of the queue; kill can")
        kind = self._supervisor.kind(order.target)
        if kind not in ONLY_FOR.get(order.kind, (kind,)):
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
            if order.target == QUEUE:
                await self._queue.handle.kill()
            elif (handle := self._supervisor.handle(order.target)) is None:
                raise ReplicaDied(f"{order.target} has ended")
            elif order.kind == "kill":
                await handle.kill()
            elif order.kind == "lift":
                await handle.inject(None)
            else:
                fault = Fault(kind=order.kind, factor=order.factor, times=order.times)
                await handle.inject(fault)
        except (ReplicaDied, ReplicaFailed) as ended:
            raise Refusal(f"{order.target} ended meanwhile: {ended}") from ended
