"""A runtime whose replicas end as a list says, and a supervisor over it."""

import asyncio
from pathlib import Path
from typing import Any, cast

from headrace.dataflow.running.runtimes.base import ReplicaDied, ReplicaHandle
from headrace.dataflow.running.supervisor import Supervisor
from headrace.services.errors import ReplicaFailed
from headrace.services.faults import Fault
from headrace.services.host import Assignment
from headrace.services.options import Placed, PolicyOptions
from headrace.services.pulse import Beat
from headrace.transferqueue import Client, ControllerUnreachable
from tests.services.bench import FLOW, Remembered

FAILED = ReplicaFailed("answers/0: RuntimeError: boom")
DIED = ReplicaDied("the process of answers/0 is gone: killed")
GOES_ON = "goes on"
NEVER_STARTS = "never starts"


class Lives:
    """A runtime; each replica's lives in order: an error, None for work that is over, or a way of life."""

    zmq_context = None

    def __init__(self, diary: list[str], **lives: list[Any]) -> None:
        self.diary = diary
        self.started: list[Assignment] = []
        self.lives = {name.replace("_", "/"): iter(ends) for name, ends in lives.items()}

    async def start(self, assignment: Assignment) -> ReplicaHandle:
        self.diary.append(f"start {assignment.replica}")
        self.started.append(assignment)
        end = next(self.lives[assignment.replica])
        if end == NEVER_STARTS:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.diary.append(f"killed {assignment.replica}")
                raise
        return (end if isinstance(end, type) else Life)(self.diary, assignment.replica, end)


class Life:
    pid = 1
    node = "node-a"
    has_process = True

    def __init__(self, diary: list[str], name: str, end: Any) -> None:
        self.diary, self.name, self.end = diary, name, end
        self.stopped = asyncio.Event()

    async def wait(self) -> None:
        if isinstance(self.end, Exception):
            raise self.end
        if self.end is not None:
            await self.stopped.wait()

    async def drain(self) -> None:
        self.diary.append(f"drain {self.name}")
        self.stopped.set()

    async def look(self) -> Beat:
        return Beat(doing="", still_s=0.0, ready=True)

    async def inject(self, fault: Fault | None) -> None:
        self.diary.append(f"inject {self.name} {None if fault is None else fault.kind}")

    async def rewrite_weights(self) -> None:
        self.diary.append(f"rewrite {self.name}")

    async def kill(self) -> None:
        self.diary.append(f"kill {self.name}")

    async def stop(self, timeout_s: float) -> None:
        self.diary.append(f"stop {self.name}")
        self.stopped.set()


class Still(Life):
    """Answers, and makes nothing of what it holds."""

    async def look(self) -> Beat:
        return Beat(doing="process 8 rows", still_s=2.6, ready=True)


class Busy(Life):
    """Does not come to the end of what it holds."""

    async def drain(self) -> None:
        self.diary.append(f"drain {self.name}")


class Stubborn(Life):
    async def stop(self, timeout_s: float) -> None:
        raise TimeoutError


class Wedged(Life):
    """Does not even answer."""

    async def drain(self) -> None:
        self.diary.append(f"drain {self.name}")
        await asyncio.Event().wait()


class FailsWhenStopped(Life):
    async def wait(self) -> None:
        await self.stopped.wait()
        raise FAILED


class Queue:
    def __init__(self, diary: list[str], gone: bool = False) -> None:
        self.diary, self.gone = diary, gone

    async def evict(self, holder: str, reason: str) -> int:
        if self.gone:
            raise ControllerUnreachable("nobody answers")
        self.diary.append(f"evict {holder}")
        return 5


def assignment(index: int = 0, *, kind: str = "rollout", node: str = "answers", **placed: Any) -> Assignment:
    return Assignment(
        kind=kind,
        node=node,
        index=index,
        run="test",
        run_dir=Path("/run"),
        shared_dir=Path("/run"),
        queue_address="",
        queue_timeout_s=10.0,
        seed=0,
        threads=1,
        options=Placed(**placed),
        policy_name="actor",
        policy=PolicyOptions(model="tiny-copier"),
        policy_is_trained=True,
        flow=FLOW,
    )


def supervisor(diary: list[str], *, gone: bool = False, **lives: list[Any]) -> tuple[Supervisor, Remembered]:
    report = Remembered()
    runtime: Any = Lives(diary, **lives)
    return Supervisor(runtime, cast(Client, Queue(diary, gone)), report, max_restarts=3), report
