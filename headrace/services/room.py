"""Room on disk for what must not be lost: waited for where there is none.

    room? ─► write ─► written
      ▲        └─► full ─┐
      └── look again ◄───┘   as long as it takes: a file system tells nobody of room

Invariant: what raised because the disk was full is written anew, whole, once there is room; any other error
travels.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.services.errors import NoRoom
from headrace.services.pulse import Pulse
from headrace.transferqueue.room import is_full

if TYPE_CHECKING:
    from headrace.services.base import Report

T = TypeVar("T")

LOOK_EVERY_S = 5.0


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Room:
    """For what a service writes into a folder, one after another."""

    def __init__(self, folder: Path, pulse: Pulse, report: "Report") -> None:
        self._folder = folder
        self._pulse = pulse
        self._report = report
        self._leaving = asyncio.Event()
        self.there_is = asyncio.Event()
        """Set but while something waits for room."""
        self.there_is.set()

    def leave(self) -> None:
        """From now on nobody waits: NoRoom is raised where there is none."""
        self._leaving.set()

    async def once_there_is(self, needed_bytes: int, write: Callable[[], Awaitable[T]], what: str) -> T:
        """What `write` gives. Raises NoRoom where there is none and one is leaving."""
        try:
            while True:
                why, full = self._lacking(needed_bytes), None
                if why is None:
                    try:
                        written = await write()
                        break
                    except Exception as error:
                        if not is_full(error):
                            raise
                        why, full = f"the disk is full: {error}", error
                if self._leaving.is_set():
                    raise NoRoom(f"{what}: {why}") from full
                await self._pause(what, why)
            if not self.there_is.is_set():
                self._report.event("resumed", what=what)
            return written
        finally:
            self.there_is.set()

    async def _pause(self, what: str, why: str) -> None:
        if self.there_is.is_set():
            self._report.event("paused", what=what, reason=why, way_out=f"make room in {self._folder}")
        self.there_is.clear()
        await self._wait(f"paused, {what}: {why}")

    def _lacking(self, needed_bytes: int) -> str | None:
        self._folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder).free
        return None if free >= needed_bytes else f"{needed_bytes} bytes are needed and {free} are free"

    async def _wait(self, why: str) -> None:
        leaving = asyncio.ensure_future(self._leaving.wait())
        with self._pulse.working(why), self._pulse.waiting():
            await asyncio.wait({leaving}, timeout=LOOK_EVERY_S)
        leaving.cancel()
