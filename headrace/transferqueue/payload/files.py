"""A file that one client writes its blocks to, and the part of it that takes them at the price of a copy.

Invariant: only pages that were filled before are written through a mapping; all others by system calls, for
which a full file system is an error and not a SIGBUS.
"""

import mmap
import os

from headrace.transferqueue.payload.mapping import populate

ALIGNMENT = 64
_BUFFERS_PER_CALL = 1024


class PayloadFile:
    """Owns a descriptor; with `mapped` what was written once is mapped for the next time."""

    def __init__(self, file: int, size: int, *, mapped: bool) -> None:
        self.size = size
        self.inode = os.fstat(file).st_ino
        self.filled = 0
        """Bytes from the start that were written here."""
        self._file = file
        self._populated = 0
        try:
            self._mapping = mmap.mmap(file, size) if mapped else None
        except BaseException:
            os.close(file)
            raise

    def write(self, pieces: list[memoryview], offset: int) -> None:
        """Raises OSError when the file system is full."""
        end = offset + sum(piece.nbytes for piece in pieces)
        if self._mapping is not None and end <= self.filled:
            _copy(self._mapping, pieces, offset)
            return
        _write(self._file, list(pieces), offset)
        if self._mapping is not None and offset < self.filled + ALIGNMENT:
            self.filled = end
            if populate(self._mapping, self._populated, end):
                self._populated = end

    def resize(self, size: int) -> None:
        """Makes room beyond the end, which takes no memory yet, or gives memory back."""
        os.ftruncate(self._file, size)
        self.filled, self._populated = min(self.filled, size), min(self._populated, size)
        if self._mapping is not None:
            self._mapping.resize(size)
        self.size = size

    def is_unlinked(self) -> bool:
        """Whether nobody else can open it."""
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
        os.close(self._file)


def _copy(mapping: mmap.mmap, pieces: list[memoryview], offset: int) -> None:
    with memoryview(mapping) as there:
        for piece in pieces:
            there[offset : offset + piece.nbytes] = piece
            offset += piece.nbytes


def _write(file: int, pieces: list[memoryview], offset: int) -> None:
    while pieces:
        written = os.pwritev(file, pieces[:_BUFFERS_PER_CALL], offset)
        offset += written
        while pieces and written >= pieces[0].nbytes:
            written -= pieces.pop(0).nbytes
        if written:
            pieces[0] = pieces[0][written:]
