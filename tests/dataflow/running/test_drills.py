"""Which drills are done and which are refused, over a supervisor and a queue that remember."""

from typing import Any, cast

import pytest

from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.drills import Drills, Ordered
from headrace.dataflow.running.kept_queue import KeptQueue
from headrace.dataflow.running.runtimes.base import ReplicaDied
from headrace.dataflow.running.supervisor import Supervisor
from headrace.services.faults import Fault
from tests.services.bench import Remembered

ANN = Asker(who="ann", why="a drill")


class Handle:
    def __init__(self, *, has_process: bool = True, ended: bool = False) -> None:
        self.has_process, self.ended = has_process, ended
        self.done: list[Any] = []

    async def kill(self) -> None:
        self.done.append("kill")

    async def inject(self, fault: Fault | None) -> None:
        if self.ended:
            raise ReplicaDied("gone")
        self.done.append(fault)


class Kept:
    def __init__(self, **handles: Handle) -> None:
        self.handles = {name.replace("_", "/"): handle for name, handle in handles.items()}

    def handle(self, replica: str) -> Handle | None:
        return self.handles.get(replica)

    def kind(self, replica: str) -> str:
        return "trainer" if replica.startswith("learn") else "rollout"


class Queue:
    def __init__(self, *, durable: bool = True) -> None:
        self.handle = Handle()
        self.durable = durable


def drills(
    kept: Kept, queue: Queue | None = None, *, allowed: bool = True, report: Remembered | None = None
) -> Drills:
    supervisor, served = cast(Supervisor, kept), cast(KeptQueue, queue or Queue())
    return Drills(supervisor, served, report or Remembered(), allowed=allowed)


async def test_a_drill_is_said_with_who_and_why_and_done() -> None:
    kept, report = Kept(answers_0=Handle(), learn_0=Handle()), Remembered()
    ordered = drills(kept, report=report)
    await ordered.inject(Ordered(target="answers/0", kind="slow", factor=3.0), ANN)
    await ordered.inject(Ordered(target="answers/0", kind="lift"), ANN)
    await ordered.inject(Ordered(target="answers/0", kind="kill"), ANN)
    await ordered.inject(Ordered(target="learn/0", kind="corrupt"), ANN)
    assert kept.handles["answers/0"].done == [Fault(kind="slow", factor=3.0), None, "kill"]
    assert kept.handles["learn/0"].done == [Fault(kind="corrupt")]
    said = {"who": "ann", "why": "a drill"}
    assert report.of("asked") == [
        {"action": "inject slow", "replica": "answers/0", **said, "factor": 3.0},
        {"action": "inject lift", "replica": "answers/0", **said},
        {"action": "inject kill", "replica": "answers/0", **said},
        {"action": "inject corrupt", "replica": "learn/0", **said},
    ]


async def test_the_queue_can_be_killed() -> None:
    queue = Queue()
    await drills(Kept(), queue).inject(Ordered(target="queue", kind="kill"), ANN)
    assert queue.handle.done == ["kill"]


async def test_a_queue_on_disk_can_be_full_and_damaged_and_be_well_again() -> None:
    queue = Queue()
    for kind in ("full-disk", "corrupt", "lift"):
        await drills(Kept(), queue).inject(Ordered(target="queue", kind=kind), ANN)
    assert queue.handle.done == [Fault(kind="full-disk"), Fault(kind="corrupt"), None]
    with pytest.raises(Refusal, match="no effect on a queue in memory"):
        in_memory = Queue(durable=False)
        await drills(Kept(), in_memory).inject(Ordered(target="queue", kind="full-disk"), ANN)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (Ordered(target="answers/7", kind="kill"), "no replica 'answers/7' runs now"),
        (Ordered(target="queue", kind="hang"), "hang cannot be asked of the queue; kill, full-disk, corrupt"),
        (Ordered(target="answers/0", kind="corrupt"), "corrupt has no effect on a rollout; it has on"),
        (Ordered(target="here/0", kind="kill"), "here/0 has no process of its own in the local runtime"),
        (Ordered(target="gone/0", kind="hang"), "gone/0 ended meanwhile: gone"),
    ],
)
async def test_a_drill_that_cannot_be_done_is_refused(order: Ordered, reason: str) -> None:
    kept = Kept(answers_0=Handle(), here_0=Handle(has_process=False), gone_0=Handle(ended=True))
    with pytest.raises(Refusal, match=reason):
        await drills(kept).inject(order, ANN)


async def test_nothing_goes_wrong_in_a_run_that_does_not_allow_it() -> None:
    kept, report = Kept(answers_0=Handle()), Remembered()
    with pytest.raises(Refusal, match="drills are off; set drills: true"):
        await drills(kept, allowed=False, report=report).inject(Ordered(target="answers/0", kind="kill"), ANN)
    assert (kept.handles["answers/0"].done, report.events) == ([], [])
