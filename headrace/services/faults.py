"""What goes wrong in a replica because an operator asked for it, as a drill; until one asks, nothing does.

    hang       its work is done and never handed on, until it is ended or the fault is lifted
    slow       its work takes `factor` times as long
    error      its work raises Drill, `times` times
    corrupt    the next version of the weights that a trainer writes has a byte that is not as published
    full-disk  what it writes to disk raises ENOSPC, until the fault is lifted

Invariant: a fault is of one life of a replica: the one that takes its place has none.
"""

import asyncio
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.services.errors import ServiceError

FaultKind = Literal["hang", "slow", "error", "corrupt", "full-disk"]


class Drill(ServiceError):
    """Raised because an operator asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: FaultKind
    factor: float = 10.0
    """Of `slow`."""
    times: int = 1
    """Of `error`."""


class Faults:
    """Those of one replica, at most one of a kind."""

    def __init__(self) -> None:
        self._armed: dict[FaultKind, Fault] = {}
        self._raised = 0
        self._lifted = asyncio.Event()

    def arm(self, fault: Fault) -> None:
        self._armed[fault.kind] = fault
        self._raised = 0

    def lift(self) -> None:
        """All is well again; what hung goes on."""
        self._armed.clear()
        self._lifted.set()
        self._lifted = asyncio.Event()

    async def after_work(self, seconds: float) -> None:
        """To be passed by work that took so long, before it is handed on."""
        if "hang" in self._armed:
            await self._lifted.wait()
        if (slow := self._armed.get("slow")) is not None:
            await asyncio.sleep(seconds * (slow.factor - 1))
        if (error := self._armed.get("error")) is not None:
            self._raised += 1
            if self._raised == error.times:
                del self._armed["error"]
            raise Drill(f"an error was asked for, number {self._raised} of {error.times}")

    def corrupts(self) -> bool:
        """Whether what is written now is to be damaged; once."""
        return self._armed.pop("corrupt", None) is not None

    def before_writing(self) -> None:
        """To be passed by whoever writes to disk."""
        if "full-disk" in self._armed:
            raise OSError(errno.ENOSPC, "a full disk was asked for")


def damage(path: Path) -> None:
    """Turns over the last byte of a file."""
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 0xFF]))
