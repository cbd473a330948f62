"""Which segments are still needed: the controller's side of the payload, without reading a byte of it.

Invariant: a segment is unlinked once its writer has moved on or left and none of its blocks is live, and
never before; a client can name no file but its own segments.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from headrace.transferqueue.errors import PayloadError
from headrace.transferqueue.payload.segments import segment_name
from headrace.transferqueue.records import Block

_NUMBER = re.compile(r"-(\d{6,})\.arrows$")


@dataclass(slots=True, kw_only=True)
class _Segment:
    size: int
    live: int = 0
    sealed: bool = False


class Custody:
    """Counts the live blocks of every segment under a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segments: dict[str, _Segment] = {}
        self._current: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def size(self) -> int:
        """Bytes of all segments, as files."""
        return sum(segment.size for segment in self._segments.values())

    def admit(self, owner: str, segment: str, offset: int, length: int) -> Block:
        """Takes a block of `owner` into custody; PayloadError if it is not one of its own."""
        known = self._segments.get(segment) or self._open(owner, segment)
        if offset < 0 or length < 1 or offset + length > known.size:
            raise PayloadError(
                f"block [{offset}, {offset + length}) lies outside of segment {segment} [{known.size}]"
            )
        known.live += 1
        return Block(segment=segment, offset=offset, length=length)

    def free(self, block: Block) -> None:
        segment = self._segments[block.segment]
        segment.live -= 1
        self._unlink_if_done(block.segment)

    def leave(self, owner: str) -> None:
        """The client has gone: its last segment is sealed and what it never announced is removed."""
        current = self._current.pop(owner, None)
        if current is not None:
            self._seal(current)
        for path in self._directory.glob(f"{owner}-*.arrows"):
            if path.name not in self._segments:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Removes every segment."""
        for path in self._directory.glob("*.arrows"):
            path.unlink(missing_ok=True)
        self._segments.clear()
        self._current.clear()

    def _open(self, owner: str, segment: str) -> _Segment:
        number = _NUMBER.search(segment)
        if number is None or segment != segment_name(owner, int(number[1])):
            raise PayloadError(f"segment {segment!r} is none of client {owner!r}")
        try:
            size = (self._directory / segment).stat().st_size
        except OSError as error:
            raise PayloadError(f"segment {segment!r} cannot be read: {error}") from error
        previous = self._current.get(owner)
        if previous is not None and previous >= segment:
            raise PayloadError(f"segment {segment!r} comes after {previous!r} was begun")
        self._segments[segment] = _Segment(size=size)
        self._current[owner] = segment
        if previous is not None:
            self._seal(previous)
        return self._segments[segment]

    def _seal(self, segment: str) -> None:
        self._segments[segment].sealed = True
        self._unlink_if_done(segment)

    def _unlink_if_done(self, segment: str) -> None:
        known = self._segments[segment]
        if known.sealed and not known.live:
            del self._segments[segment]
            (self._directory / segment).unlink(missing_ok=True)
