"""What runs in a Ray process: one replica, or the queue's controller."""

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import ray

from headrace.dataflow.running.runtimes.base import QueuePlace
from headrace.dataflow.running.runtimes.disturbed import disturb
from headrace.services.faults import Fault
from headrace.services.host import Assignment, Hosted
from headrace.services.pulse import Beat
from headrace.transferqueue import Controller
from headrace.transferqueue.solitude import quiet_collector

LOOPBACK = "tcp://127.0.0.1:*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an actor's process is."""

    pid: int
    node: str
    """Ray's id of it."""


class Process:
    """An actor whose output goes to its own file."""

    def __init__(self, log_file: Path) -> None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, sys.stdout.fileno())
        os.dup2(file, sys.stderr.fileno())
        os.close(file)

    async def place(self) -> Place:
        return Place(pid=os.getpid(), node=ray.get_runtime_context().get_node_id())


class ReplicaActor(Process):
    """A process with one replica in it."""

    _hosted: Hosted

    def __init__(self, log_file: Path, working_dir: Path | None) -> None:
        """`working_dir`: the launcher's, from which a user's modules are imported; None: stay where it is."""
        super().__init__(log_file)
        if working_dir is not None:
            os.chdir(working_dir)

    async def run(self, assignment: Assignment) -> None:
        """Asked for before the others."""
        self._hosted = Hosted(assignment)
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


class QueueActor(Process):
    """The process of the queue's controller."""

    def __init__(self, place: QueuePlace, keys: Path | None) -> None:
        """`keys`: of a run on several nodes."""
        super().__init__(place.log_file)
        self._controller = Controller(
            place.directory,
            LOOPBACK if keys is None else own_address(),
            keys=keys,
            **asdict(place.options),
        )

    async def open(self) -> str:
        await self._controller.start()
        quiet_collector()
        return self._controller.address

    async def run(self) -> None:
        await self._controller.closed()

    async def inject(self, fault: Fault | None) -> None:
        disturb(self._controller, fault)

    async def stop(self) -> None:
        await self._controller.close()


def own_address() -> str:
    """Any free port of this node, where the others of the cluster reach it."""
    return f"tcp://{ray.util.get_node_ip_address()}:*"
