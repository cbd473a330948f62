"""Where replicas run. A runtime starts them and tells how they ended; the supervisor decides what follows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.services.faults import Fault
from headrace.services.host import Assignment
from headrace.services.options import QueueOptions
from headrace.services.pulse import Beat


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """What the queue's controller is told."""

    directory: Path
    options: QueueOptions
    log_file: Path


class ReplicaDied(Exception):
    """The replica's process is gone: killed, crashed, or its node was lost."""


class RuntimeUnavailable(Exception):
    """The runtime itself cannot be had; says why and the way out."""


class Handle(Protocol):
    """What was started: a replica, or the queue. Its process, where it has one of its own, ends with it."""

    has_process: bool
    """Whether it has one of its own, which can be killed."""
    pid: int
    node: str
    """Of the cluster, where the process is; "" where there is no cluster."""

    async def wait(self) -> None:
        """Returns when its work is over or it was stopped.

        Raises ReplicaFailed when the service gave up and ReplicaDied when the process is gone.
        """
        ...

    async def stop(self, timeout_s: float) -> None:
        """Lets it hand back what it holds and close; ends its process hard after `timeout_s`.

        Raises TimeoutError where it has no process of its own and goes on.
        """
        ...

    async def kill(self) -> None:
        """Ends it without its help, and returns once its process is gone.

        Raises TimeoutError, with what goes on of it, where it has no process of its own and does not end.
        """
        ...


class QueueHandle(Handle, Protocol):
    async def inject(self, fault: Fault | None) -> None:
        """Has `full-disk` or `corrupt` befall it; None: no more. Raises UnknownName where nothing lies there
        to be damaged."""
        ...


class ReplicaHandle(Handle, Protocol):
    async def drain(self) -> None:
        """Has it take nothing further; `wait` returns once what it holds is done. Without effect on one that
        is not ready, and on a service that leads its own loop, which `stop` ends."""
        ...

    async def look(self) -> Beat:
        """What it does now. Raises as `wait` where it has ended; does not return where its process hangs."""
        ...

    async def inject(self, fault: Fault | None) -> None:
        """Has something go wrong in it; None: no more. Raises as `wait` where it has ended."""
        ...

    async def rewrite_weights(self) -> None:
        """Of a trainer; see `Publisher`. Raises as `wait` where it has ended."""
        ...


class Runtime(Protocol):
    zmq_context: Any
    """What clients in the launcher's process connect through; None: a context of their own."""

    @property
    def keys(self) -> Path | None:
        """Folder of the keys that clients of the queue need; None: it is on this machine alone."""
        ...

    async def open(self) -> None:
        """Raises RuntimeUnavailable."""
        ...

    async def start_queue(self, place: QueuePlace) -> tuple[str, QueueHandle]:
        """Starts the queue's controller, on what its directory holds; returns its address.

        Raises ReplicaFailed or ReplicaDied where it does not come up.
        """
        ...

    async def start(self, assignment: Assignment) -> ReplicaHandle:
        """Raises ReplicaFailed or ReplicaDied where it does not come up; cancelled, it leaves no process."""
        ...

    async def close(self) -> None:
        """Ends everything that `open` began; nothing of the runtime is left behind."""
        ...
