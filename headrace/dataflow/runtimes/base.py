"""Where replicas run. A runtime starts them and tells how they ended; what to do about it is the supervisor's."""

from pathlib import Path
from typing import Any, Protocol

from headrace.services.host import Assignment


class ReplicaDied(Exception):
    """The replica's process is gone: killed, crashed, or its node was lost."""


class Handle(Protocol):
    """A started replica."""

    pid: int

    async def wait(self) -> None:
        """Returns when its work is over or it was stopped.

        Raises ReplicaFailed when the service gave up and ReplicaDied when the process is gone.
        """
        ...

    async def stop(self, timeout_s: float) -> None:
        """Lets it hand back what it holds and close; ends it hard after `timeout_s`."""
        ...


class Runtime(Protocol):
    zmq_context: Any
    """What clients in the launcher's process connect through; None: a context of their own."""

    async def open(self) -> None: ...

    async def start_queue(self, directory: Path) -> tuple[str, Handle]:
        """Starts the queue's controller over `directory`; returns its address."""
        ...

    async def start(self, assignment: Assignment) -> Handle: ...

    async def close(self) -> None:
        """Ends everything that `open` began; nothing of the runtime is left behind."""
        ...
