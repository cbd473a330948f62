"""Which segments are still needed: the controller's side of the payload, without reading a byte of it.

Invariant: a segment is retired once its writer has moved on or left and none of its blocks is live, and
never before; a client can name no file but its own segments, and none that is another segment still. What is
retired goes in `sweep`, which the controller calls when the operations that retired it are safe.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.transferqueue.errors import PayloadError
from headrace.transferqueue.payload.safety import sync_files, sync_names
from headrace.transferqueue.payload.segments import segment_name
from headrace.transferqueue.payload.spares import Spares
from headrace.transferqueue.state.records import Block

_NUMBER = re.compile(r"-(\d{6,})\.arrows$")
_UNKNOWN_SIZE = 1 << 62
ARCHIVE = "archive"
"""Where retired segments are kept, in the queue's directory, if they are."""


@dataclass(slots=True, kw_only=True)
class _Segment:
    size: int
    inode: int = 0
    """0: it was not looked at."""
    live: int = 0
    end: int = 0
    """Where its last block ends."""
    sealed: bool = False


class Custody:
    """Counts the live blocks of every segment under a directory.

    `retire` says what becomes of a segment's file that nobody needs; by default it is unlinked. With `spares`
    it is written again, once nobody looks at it either.
    """

    def __init__(
        self,
        directory: Path,
        *,
        retire: Callable[[Path], object] | None = None,
        spares: Spares | None = None,
    ) -> None:
        self.rehearsing = False
        """While a journal is replayed files may be gone already: none is looked at."""
        self._directory = directory
        self._retire = retire or _unlink
        self._spares = spares
        self._segments: dict[str, _Segment] = {}
        self._current: dict[str, str] = {}
        self._retired: list[str] = []
        self._cut: list[str] = []
        self._unsynced: set[str] = set()
        self._named: set[str] = set()
        """Segments whose names are safe as well, as far as they are still written to."""

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def size(self) -> int:
        """Bytes of all segments, as files, and of those that lie idle."""
        idle = 0 if self._spares is None else self._spares.bytes
        return idle + sum(segment.size for segment in self._segments.values())

    def admit(self, owner: str, segment: str, offset: int, length: int, checksum: int = 0) -> Block:
        """Takes a block of `owner` into custody; PayloadError if it is not one of its own."""
        number = _NUMBER.search(segment)
        if number is None or segment != segment_name(owner, int(number[1])):
            raise PayloadError(f"segment {segment!r} is none of client {owner!r}")
        known = self._segments.get(segment) or self._open(owner, segment)
        if offset < 0 or length < 1 or offset + length > known.size:
            raise PayloadError(
                f"block [{offset}, {offset + length}) lies outside of segment {segment} [{known.size}]"
            )
        known.live += 1
        known.end = max(known.end, offset + length)
        self._unsynced.add(segment)
        return Block(segment=segment, offset=offset, length=length, checksum=checksum)

    def adopt(self, blocks: Iterable[Block]) -> None:
        """Blocks of a snapshot, admitted in an earlier life; their writers may go on."""
        for block in blocks:
            known = self._segments.setdefault(block.segment, _Segment(size=_UNKNOWN_SIZE))
            known.live += 1
            known.end = max(known.end, block.offset + block.length)
            owner = block.segment.rpartition("-")[0]
            self._current[owner] = max(self._current.get(owner, ""), block.segment, key=_age)
        for segment in self._segments.keys() - set(self._current.values()):
            self._seal(segment)

    def free(self, block: Block) -> None:
        segment = self._segments[block.segment]
        segment.live -= 1
        self._retire_if_done(block.segment)

    def hand(self, reader: str, segments: Iterable[str]) -> None:
        """An answer to `reader` names these segments; their files stay as they are until it lets go."""
        if self._spares is not None:
            self._spares.hand(reader, segments)

    def let_go(self, reader: str, counts: Mapping[Any, Any]) -> None:
        """`reader` looks no more at what so many answers named, by segment."""
        if self._spares is not None:
            self._spares.let_go(reader, counts)

    def leave(self, owner: str) -> None:
        """The client has gone: its last segment is sealed and what it never announced is removed."""
        if self._spares is not None:
            self._spares.leave(owner, [name for name in self._segments if name.startswith(f"{owner}-")])
        current = self._current.pop(owner, None)
        if current is not None:
            self._seal(current)
        if not self.rehearsing:
            self._retired += self._unannounced(owner)

    def settle(self, owners: Iterable[str]) -> None:
        """After a replay: looks at the files again, and removes those of no known block or owner."""
        self.rehearsing = False
        present = set(owners)
        for name, segment in self._segments.items():
            path = self._directory / name
            segment.size = path.stat().st_size if path.exists() else 0
        for path in self._directory.glob("*.arrows"):
            if path.name not in self._segments and path.name.rpartition("-")[0] not in present:
                self._retired.append(path.name)
        for owner in set(self._current) - present:
            self._seal(self._current.pop(owner))

    def sync(self) -> None:
        """Makes every block admitted so far safe from a loss of power."""
        names = self._unsynced & self._segments.keys()
        sync_files(self._directory, names)
        if names - self._named:
            sync_names(self._directory)
            self._named = set(self._current.values())
        self._unsynced.clear()

    def sweep(self) -> None:
        """Lets go of the files of retired segments, and of the unused ends of sealed ones."""
        for name in self._cut:
            if name in self._segments and (self._directory / name).exists():
                self._segments[name].size = self._segments[name].end
                if self._spares is None:
                    os.truncate(self._directory / name, self._segments[name].end)
        for name in self._retired:
            self._retire(self._directory / name)
        self._cut.clear()
        self._retired.clear()

    def close(self) -> None:
        """Removes every segment."""
        for path in self._directory.glob("*.arrows"):
            path.unlink(missing_ok=True)
        if self._spares is not None:
            self._spares.close()
        self._segments.clear()
        self._current.clear()
        self._retired.clear()

    def _unannounced(self, owner: str) -> list[str]:
        paths = self._directory.glob(f"{owner}-*.arrows")
        return sorted(path.name for path in paths if path.name not in self._segments)

    def _open(self, owner: str, segment: str) -> _Segment:
        previous = self._current.get(owner)
        if previous is not None and _age(previous) >= _age(segment):
            raise PayloadError(f"segment {segment!r} comes after {previous!r} was begun")
        self._segments[segment] = _Segment(size=_UNKNOWN_SIZE) if self.rehearsing else self._look(segment)
        self._current[owner] = segment
        if previous is not None:
            self._seal(previous)
        return self._segments[segment]

    def _look(self, segment: str) -> _Segment:
        try:
            status = (self._directory / segment).stat(follow_symlinks=False)
        except OSError as error:
            raise PayloadError(f"segment {segment!r} cannot be read: {error}") from error
        others = [name for name, known in self._segments.items() if known.inode == status.st_ino]
        if others or (self._spares is not None and self._spares.is_idle(status.st_ino)):
            raise PayloadError(f"the file of segment {segment!r} is needed still, as {others or 'another'}")
        if self._spares is not None:
            self._spares.taken(status.st_ino)
        return _Segment(size=status.st_size, inode=status.st_ino)

    def _seal(self, segment: str) -> None:
        self._segments[segment].sealed = True
        self._cut.append(segment)
        self._retire_if_done(segment)

    def _retire_if_done(self, segment: str) -> None:
        known = self._segments[segment]
        if known.sealed and not known.live:
            del self._segments[segment]
            self._unsynced.discard(segment)
            if self._spares is None:
                self._retired.append(segment)
            else:
                in_use = sum(other.end for other in self._segments.values())
                self._spares.take(segment, in_use_bytes=in_use)


def _age(segment: str) -> tuple[int, str]:
    """Orders the segments of one client, whose numbers outgrow their six digits."""
    return len(segment), segment


def archive(path: Path) -> None:
    """Keeps a segment that is not needed any more."""
    folder = path.parent / ARCHIVE
    folder.mkdir(mode=0o700, exist_ok=True)
    if path.exists():
        os.replace(path, folder / path.name)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
