"""Append-only segments of Arrow IPC: a client writes its own, every client maps what it reads.

A block is one Arrow IPC stream (schema, one record batch) at a 64-byte boundary of a segment file. Its
bytes never change once its reference has been given away; a segment lives until the controller unlinks
it, and a view outlives even that, since it holds the mapping.
"""

import io
import mmap
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.transferqueue.errors import PayloadError

SEGMENT_BYTES = 32 << 20
ALIGNMENT = 64
_BUFFERS_PER_CALL = 1024
_LARGE_BYTES = 256 << 10
_POPULATE_READ = 22
"""Linux's MADV_POPULATE_READ, which `mmap` has no name for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Where a block is."""

    segment: str
    offset: int
    length: int
    checksum: int = 0
    """CRC-32 of the bytes; 0 where none was taken, in memory."""
    node: str = ""
    """The node whose storage unit has it; "": the controller's."""


def segment_name(owner: str, number: int) -> str:
    """File name of the `number`-th segment of a client."""
    return f"{owner}-{number:06d}.arrows"


class SegmentWriter:
    """Appends blocks to the newest segment of one client; starts another when it is full.

    `fault` is called at "payload begun", before the last half of a block is written, and at "payload
    written": a test may end the process there.
    """

    def __init__(
        self,
        directory: Path,
        owner: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        checksums: bool = False,
        fault: Callable[[str], object] | None = None,
    ) -> None:
        self._checksums = checksums
        self._fault = fault
        self._directory = directory
        self._owner = owner
        self._segment_bytes = segment_bytes
        self._number = 0
        self._name = ""
        self._file = -1
        self._size = 0
        self._end = 0

    def append(self, batch: pa.RecordBatch) -> Reference:
        """Writes a batch as one block; PayloadError when the directory has no room for it."""
        pieces = _Pieces()
        with pa.ipc.new_stream(pa.PythonFile(pieces, "w"), batch.schema) as writer:
            writer.write_batch(batch)
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        if self._file < 0 or offset + pieces.length > self._size:
            self._start(pieces.length)
            offset = 0
        checksum = pieces.checksum() if self._checksums else 0
        try:
            if self._fault is not None:
                _write_all(self._file, pieces.buffers[: len(pieces.buffers) // 2], offset)
                self._fault("payload begun")
            _write_all(self._file, pieces.buffers, offset)
        except OSError as error:
            raise PayloadError(
                f"{self._directory} has no room for {pieces.length} more bytes: {error}; lower the "
                "tables' max_bytes or give the directory more space"
            ) from error
        self._end = offset + pieces.length
        if self._fault is not None:
            self._fault("payload written")
        return Reference(segment=self._name, offset=offset, length=pieces.length, checksum=checksum)

    def undo(self, reference: Reference) -> None:
        """Gives back the bytes of a block that nobody was told of, if it is the last one."""
        if reference.segment == self._name and reference.offset + reference.length == self._end:
            self._end = reference.offset

    def close(self) -> None:
        """Closes the current segment; its file stays with the controller."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._name = -1, ""

    def _start(self, length: int) -> None:
        self.close()
        size = max(self._segment_bytes, length)
        name = segment_name(self._owner, self._number)
        path = self._directory / name
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._file, size)
        except OSError as error:
            raise PayloadError(f"segment {path} of {size} bytes cannot be made: {error}") from error
        self._name, self._number, self._end, self._size = name, self._number + 1, 0, size


class _Pieces(io.RawIOBase):
    """What Arrow writes, kept as it is: cells are copied once, by the system call that stores them."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: list[memoryview] = []
        self.length = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        view = memoryview(piece)
        if view.nbytes:
            self.buffers.append(view.cast("B"))
            self.length += view.nbytes
        return view.nbytes

    def checksum(self) -> int:
        found = 0
        for piece in self.buffers:
            found = zlib.crc32(piece, found)
        return found


def is_whole(path: Path, offset: int, length: int, checksum: int) -> bool:
    """Whether a block's bytes are the ones that were written: all there, and of this checksum."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(length)
    except OSError:
        return False
    return len(content) == length and (not checksum or zlib.crc32(content) == checksum)


def _write_all(file: int, buffers: list[memoryview], offset: int) -> None:
    """Writes without a mapping: a full file system is an error here, not a SIGBUS."""
    while buffers:
        written = os.pwritev(file, buffers[:_BUFFERS_PER_CALL], offset)
        offset += written
        while buffers and written >= buffers[0].nbytes:
            written -= buffers.pop(0).nbytes
        if written:
            buffers[0] = buffers[0][written:]


class SegmentReader:
    """Maps each segment once, for as long as its file exists."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._maps: dict[str, tuple[int, mmap.mmap]] = {}

    def read(self, reference: Reference) -> pa.RecordBatch:
        """The batch of a block, as views of the mapping; PayloadError when the segment is gone."""
        if reference.segment not in self._maps:
            self._maps[reference.segment] = self._open(reference.segment)
        mapping = self._maps[reference.segment][1]
        try:
            _fault_in(mapping, reference)
            buffer = pa.py_buffer(mapping)
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

    def _open(self, name: str) -> tuple[int, mmap.mmap]:
        path = self._directory / name
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            mapping = mmap.mmap(file, 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise PayloadError(f"segment {path} cannot be read: {error}") from error
        return file, mapping


def _fault_in(mapping: mmap.mmap, reference: Reference) -> None:
    """Maps a large block's pages by one call instead of a fault for each few; a kernel older than 5.14
    does not know it and faults."""
    start = reference.offset // mmap.PAGESIZE * mmap.PAGESIZE
    if reference.length >= _LARGE_BYTES:
        with suppress(OSError):
            mapping.madvise(_POPULATE_READ, start, reference.offset + reference.length - start)
