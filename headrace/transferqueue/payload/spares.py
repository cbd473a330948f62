"""Files that no row needs: at rest while somebody may look at them, then spares that their owners write to.

    done ─► resting ─► spare ─► (its owner renames it: another segment)
              └──────────┴────► unlinked: over the limit, a look that will never end, an owner that left

Invariant: no file becomes a spare while a client may look at it. Nothing waits for a file to come back.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.transferqueue.payload.readers import Readers
from headrace.transferqueue.payload.segments import SPARE

SPARE_BYTES = 256 << 20
"""What may lie idle, or as much as the segments in use took if that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle:
    inode: int
    bytes: int
    """Memory that it takes."""


class Spares:
    """The idle files of a directory; `readers` knows who may look."""

    def __init__(self, directory: Path, *, spare_bytes: int = SPARE_BYTES) -> None:
        self._directory = directory
        self._spare_bytes = spare_bytes
        self._readers = Readers()
        self._spoiled: set[str] = set()
        """Segments in use whose files shall not be written again."""
        self._resting: dict[str, _Idle] = {}
        self._spares: dict[str, _Idle] = {}

    @property
    def bytes(self) -> int:
        """Memory of all idle files."""
        return sum(file.bytes for file in (*self._resting.values(), *self._spares.values()))

    def hand(self, reader: str, segments: Iterable[str]) -> None:
        """See `Readers.hand`."""
        self._readers.hand(reader, segments)

    def let_go(self, reader: str, counts: Mapping[Any, Any]) -> None:
        """See `Readers.let_go`."""
        for segment in self._readers.let_go(reader, counts):
            if segment in self._resting:
                self._give_back(segment, self._resting.pop(segment))

    def leave(self, client: str, segments: Iterable[str]) -> None:
        """The client has gone; `segments` in use are its own."""
        self._spoiled.update(segments)
        for segment in self._readers.leave(client):
            if segment in self._resting:
                self._drop(segment)
            else:
                self._spoiled.add(segment)
        for segment in (*self._resting, *self._spares):
            if segment.rpartition("-")[0] == client:
                self._drop(segment)

    def take(self, segment: str, *, in_use_bytes: int) -> None:
        """Nothing of the segment is needed any more; `in_use_bytes` is what the others in use take."""
        try:
            status = (self._directory / segment).stat()
        except FileNotFoundError:
            self._drop(segment)
            return
        idle = _Idle(inode=status.st_ino, bytes=status.st_blocks * 512)
        if segment in self._spoiled:
            self._drop(segment)
        elif self._readers.any(segment):
            self._resting[segment] = idle
        else:
            self._give_back(segment, idle)
        while self.bytes > max(self._spare_bytes, in_use_bytes + idle.bytes):
            self._drop(next(iter((*self._resting, *self._spares))))

    def is_idle(self, inode: int) -> bool:
        """Whether a file is none that its owner was given back."""
        return any(file.inode == inode for file in self._resting.values())

    def taken(self, inode: int) -> None:
        """Its owner writes the file again."""
        for segment in [name for name, file in self._spares.items() if file.inode == inode]:
            del self._spares[segment]

    def close(self) -> None:
        """Removes every spare."""
        for path in self._directory.glob(f"*{SPARE}"):
            path.unlink(missing_ok=True)

    def _give_back(self, segment: str, idle: _Idle) -> None:
        try:
            os.rename(self._directory / segment, self._spare(segment))
        except FileNotFoundError:
            return
        self._spares[segment] = idle

    def _drop(self, segment: str) -> None:
        self._resting.pop(segment, None)
        self._spares.pop(segment, None)
        self._spoiled.discard(segment)
        self._readers.forget(segment)
        for path in (self._directory / segment, self._spare(segment)):
            path.unlink(missing_ok=True)

    def _spare(self, segment: str) -> Path:
        return (self._directory / segment).with_suffix(SPARE)
