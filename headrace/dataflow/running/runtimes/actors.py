"""What runs in a Ray process: one replica, or the queue's controller."""

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import ray

from headrace.dataflow.running.runtimes.base import QueuePlace
from headrace.services.faults import Fault
from headrace.services.host import Assignment, Hosted
from headrace.services.pulse import Beat
from headrace.transferqueue import Controller
from headrace.transferqueue.solitude import quiet_collector


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an actor's process is."""

    pid: int
    node: str
    """Ray's id of it."""


def here() -> Place:
    return Place(pid=os.getpid(), node=ray.get_runtime_context().get_node_id())


class ReplicaActor:
    """A process with one replica in it."""

    def __init__(self, assignment: Assignment, working_dir: Path | None) -> None:
        """`working_dir`: the launcher's, from which a user's modules are imported; None: stay where it is."""
        _log_to(assignment.log_file)
        if working_dir is not None:
            os.chdir(working_dir)
        self._hosted = Hosted(assignment)

    async def run(self) -> None:
        await self._hosted.run()

    async def drain(self) -> None:
        self._hosted.drain()

    async def stop(self) -> None:
        await self._hosted.stop()

    async def look(self) -> Beat:
        return self._hosted.look()

    async def inject(self, fault: Fault | None) -> None:
        self._hosted.inject(fault)

    async def rewrite_weights(self) -> None:
        await self._hosted.rewrite_weights()

    def place(self) -> Place:
        return here()


class QueueActor:
    """The process of the queue's controller."""

    def __init__(self, place: QueuePlace) -> None:
        _log_to(place.log_file)
        self._controller = Controller(place.directory, **asdict(place.options))

    async def open(self) -> str:
        await self._controller.start()
        quiet_collector()
        return self._controller.address

    async def run(self) -> None:
        await self._controller.closed()

    async def stop(self) -> None:
        await self._controller.close()

    def place(self) -> Place:
        return here()


def _log_to(path: Path) -> None:
    """Sends everything that this process prints to its own file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    os.close(file)
