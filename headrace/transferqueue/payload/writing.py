"""A client's segments, written one after another; in memory their files are written again.

    fresh file ─► current ─► sealed ─► `.spare` (nobody needs it, the controller says) ─► current ...

Invariant: a file is written from its start again only after the controller has named it a spare, and under a
number that was never used.
"""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.transferqueue.errors import PayloadError, PayloadFull
from headrace.transferqueue.payload.files import ALIGNMENT, PayloadFile
from headrace.transferqueue.payload.safety import Safety
from headrace.transferqueue.payload.segments import SPARE, Reference, checksum, segment_name
from headrace.transferqueue.room import is_full

SEGMENT_BYTES = 32 << 20
_FIRST_BYTES = 4 << 20
_FILES_PER_SIZE = 8
"""Fresh files of one size: few data go through small files, which come back sooner, and much through few."""
_LEAST_OPEN = 2
_TOO_LARGE = 4
_SMALL_BYTES = 128 << 10
_OPTIONS = pa.ipc.IpcWriteOptions()
"""Arrow's defaults; without them it asks the environment for each batch."""
_OPEN_BYTES = 256 << 20
"""What of the files that were written last stays mapped for when they are spares; two of them in any case."""


class SegmentWriter:
    """Appends blocks to the newest segment of one client; begins another when it is full.

    `sync`: a block is safe from a loss of power once it is written. `reuse`: spares are looked for, and files
    are kept mapped to be written again. `fault` is called at "payload begun", before the last half of a block
    is written, and at "payload written": a test may end the process there.
    """

    def __init__(
        self,
        directory: Path,
        owner: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        checksums: bool = False,
        sync: bool = False,
        reuse: bool = False,
        fault: Callable[[str], object] | None = None,
    ) -> None:
        self._checksums = checksums
        self._safety = Safety(directory) if sync else None
        self._fault = fault
        self._directory = directory
        self._owner = owner
        self._segment_bytes = segment_bytes
        self._reuse = reuse
        self._number = 0
        self._fresh = 0
        self._name = ""
        self._file: PayloadFile | None = None
        self._files: dict[int, PayloadFile] = {}
        """By inode, the current one last: those that may be spares one day."""
        self._end = 0
        self._full = 0

    def append(self, batch: pa.RecordBatch) -> Reference:
        """Writes a batch as one block. Raises PayloadFull where the directory has no room for it, and it may
        be written once there is; PayloadError where it cannot be written."""
        pieces = _Pieces.of(batch)
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        try:
            file = self._file
            if file is None or offset + pieces.length > self._full:
                file, offset = self._begin(pieces.length), 0
            if self._fault is not None:
                file.write(pieces.half(), offset)
                self._fault("payload begun")
            file.write(pieces.buffers, offset)
            if self._safety is not None:
                self._safety.secure(self._name)
        except OSError as error:
            if not is_full(error):
                raise PayloadError(f"{self._directory} cannot be written: {error}") from error
            raise PayloadFull(
                f"{self._directory} has no room for {pieces.length} more bytes: {error}; lower the "
                "tables' max_bytes or give the directory more space"
            ) from error
        self._end = offset + pieces.length
        if self._fault is not None:
            self._fault("payload written")
        checksum = pieces.checksum() if self._checksums else 0
        return Reference(segment=self._name, offset=offset, length=pieces.length, checksum=checksum)

    def undo(self, reference: Reference) -> None:
        """Gives back the bytes of a block that nobody was told of, if it is the last one."""
        if reference.segment == self._name and reference.offset + reference.length == self._end:
            self._end = reference.offset

    def close(self) -> None:
        """Closes the files; they stay with the controller."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._file, self._name = None, ""

    def _begin(self, length: int) -> PayloadFile:
        """The file of a new segment, which a block of `length` bytes opens."""
        name = segment_name(self._owner, self._number)
        self._number += 1
        file = (self._take_spare(name, length) if self._reuse else None) or self._make(name, length)
        self._files[file.inode] = self._files.pop(file.inode, file)
        self._close_unneeded()
        self._file, self._name = file, name
        self._end, self._full = 0, max(length, min(file.size, self._segment_bytes))
        return file

    def _close_unneeded(self) -> None:
        """Files that were unlinked would keep their memory, and those that never come back their mapping."""
        open_bytes = 0
        for age, (inode, file) in enumerate(reversed(list(self._files.items()))):
            open_bytes += file.filled
            wanted = self._reuse and (age < _LEAST_OPEN or open_bytes <= _OPEN_BYTES)
            if age and (file.is_unlinked() or not wanted):
                self._files.pop(inode).close()

    def _take_spare(self, name: str, length: int) -> PayloadFile | None:
        """The smallest spare that has room, or the largest, made larger; among equals one that is mapped.

        None: there is none. One that is far too large gives memory back.
        """
        spares = list(self._spares())
        for size, _, path in sorted(
            spares, key=lambda spare: (spare[0] < length, abs(spare[0] - length), spare)
        ):
            try:
                os.rename(path, self._directory / name)
            except FileNotFoundError:
                continue
            file = self._reopen(self._directory / name)
            room = max(length, self._segment_bytes)
            if size < length:
                file.resize(_with_slack(length))
            elif size > _TOO_LARGE * room:
                file.resize(room)
            return file
        return None

    def _spares(self) -> Iterator[tuple[int, bool, str]]:
        """Size, whether it is not mapped, and path of each; the controller may unlink one at any time."""
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name.startswith(f"{self._owner}-") and entry.name.endswith(SPARE):
                    with suppress(FileNotFoundError):
                        yield entry.stat().st_size, entry.inode() not in self._files, entry.path

    def _reopen(self, path: Path) -> PayloadFile:
        status = path.stat()
        known = self._files.get(status.st_ino)
        if known is not None:
            return known
        return PayloadFile(os.open(path, os.O_RDWR | os.O_CLOEXEC), status.st_size, mapped=True)

    def _make(self, name: str, length: int) -> PayloadFile:
        size = max(self._size_of_fresh(), length)
        file = os.open(self._directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._fresh += 1
        os.ftruncate(file, size)
        return PayloadFile(file, size, mapped=self._reuse)

    def _size_of_fresh(self) -> int:
        if not self._reuse:
            return self._segment_bytes
        return min(self._segment_bytes, _FIRST_BYTES << min(self._fresh // _FILES_PER_SIZE, 16))


def _with_slack(length: int) -> int:
    """Room for blocks that are somewhat larger than this one; what is not written takes no memory."""
    return length + length // 8


class _Pieces(io.RawIOBase):
    """What Arrow writes, kept as it is, so that cells are copied once; a small batch is put together first,
    since copying it costs less than a call for each of its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: list[memoryview] = []
        self.length = 0

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> "_Pieces":
        pieces = cls()
        if batch.nbytes > _SMALL_BYTES:
            _stream(batch, pa.PythonFile(pieces, "w"))
        else:
            together = pa.BufferOutputStream()
            _stream(batch, together)
            pieces.write(together.getvalue())
        return pieces

    def half(self) -> list[memoryview]:
        """The first buffers, or of the only one its beginning."""
        if len(self.buffers) == 1:
            return [self.buffers[0][: self.length // 2]]
        return self.buffers[: len(self.buffers) // 2]

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        view = memoryview(piece)
        if view.nbytes:
            self.buffers.append(view.cast("B"))
            self.length += view.nbytes
        return view.nbytes

    def checksum(self) -> int:
        return checksum(self.buffers)


def _stream(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
