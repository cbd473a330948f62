"""Append-only segments of Arrow IPC: a client writes its own, every client maps what it reads.

A block is one Arrow IPC stream (schema, one record batch) at a 64-byte boundary of a segment file. Its
bytes never change once its reference has been given away; a segment lives until the controller unlinks
it, and a view outlives even that, since it holds the mapping.
"""

import mmap
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.transferqueue.errors import PayloadError

SEGMENT_BYTES = 32 << 20
ALIGNMENT = 64
_RESERVE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Where a block is."""

    segment: str
    offset: int
    length: int


def segment_name(owner: str, number: int) -> str:
    """File name of the `number`-th segment of a client."""
    return f"{owner}-{number:06d}.arrows"


class SegmentWriter:
    """Appends blocks to the newest segment of one client; starts another when it is full."""

    def __init__(self, directory: Path, owner: str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._owner = owner
        self._segment_bytes = segment_bytes
        self._number = 0
        self._name = ""
        self._file = -1
        self._map: mmap.mmap | None = None
        self._end = 0
        self._reserved = 0

    def append(self, batch: pa.RecordBatch) -> Reference:
        """Writes a batch as one block; PayloadError when the directory has no room for it."""
        counter = pa.MockOutputStream()
        _write(counter, batch)
        length = counter.size()
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        if self._map is None or offset + length > len(self._map):
            self._start(length)
            offset = 0
        self._reserve(offset + length)
        assert self._map is not None
        window = memoryview(self._map)[offset : offset + length]
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(window))
        _write(sink, batch)
        sink.close()
        self._end = offset + length
        return Reference(segment=self._name, offset=offset, length=length)

    def undo(self, reference: Reference) -> None:
        """Gives back the bytes of a block that nobody was told of, if it is the last one."""
        if reference.segment == self._name and reference.offset + reference.length == self._end:
            self._end = reference.offset

    def close(self) -> None:
        """Closes the current segment; its file stays with the controller."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._map, self._name = -1, None, ""

    def _start(self, length: int) -> None:
        self.close()
        size = max(self._segment_bytes, length)
        name = segment_name(self._owner, self._number)
        path = self._directory / name
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._file, size)
            self._map = mmap.mmap(self._file, size)
        except OSError as error:
            raise PayloadError(f"segment {path} of {size} bytes cannot be made: {error}") from error
        self._name, self._number, self._end, self._reserved = name, self._number + 1, 0, 0

    def _reserve(self, end: int) -> None:
        """Takes the pages before they are written: a full file system is an error here, not a SIGBUS."""
        if end <= self._reserved:
            return
        assert self._map is not None
        goal = min(len(self._map), max(end, self._reserved + _RESERVE_BYTES))
        try:
            os.posix_fallocate(self._file, self._reserved, goal - self._reserved)
        except OSError as error:
            raise PayloadError(
                f"{self._directory} has no room for {goal - self._reserved} more bytes: {error}; lower the "
                "tables' max_bytes or give the directory more space"
            ) from error
        self._reserved = goal


class SegmentReader:
    """Maps each segment once, for as long as its file exists."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._maps: dict[str, tuple[int, pa.Buffer]] = {}

    def read(self, reference: Reference) -> pa.RecordBatch:
        """The batch of a block, as views of the mapping; PayloadError when the segment is gone."""
        if reference.segment not in self._maps:
            self._maps[reference.segment] = self._open(reference.segment)
        buffer = self._maps[reference.segment][1]
        try:
            return pa.ipc.open_stream(buffer.slice(reference.offset, reference.length)).read_next_batch()
        except (pa.ArrowException, ValueError, StopIteration) as error:
            raise PayloadError(f"{reference} holds no block: {error}") from error

    def forget_unlinked(self) -> None:
        """Lets go of segments that the controller has unlinked; views that are in use stay valid."""
        for name, (file, _) in list(self._maps.items()):
            if os.fstat(file).st_nlink == 0:
                os.close(file)
                del self._maps[name]

    def close(self) -> None:
        for file, _ in self._maps.values():
            os.close(file)
        self._maps.clear()

    def _open(self, name: str) -> tuple[int, pa.Buffer]:
        path = self._directory / name
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            mapping = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise PayloadError(f"segment {path} cannot be read: {error}") from error
        return file, pa.py_buffer(mapping)


def _write(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
