"""What a process maps of a payload file: pages brought in by one call, and kept true to the file.

Invariant: a view reads what the file holds. Pages are private, so that what somebody writes to a view changes
no file; `refresh` lets go of such pages, and is called while nobody looks.
"""

import mmap
import os
import weakref
from collections.abc import Callable
from contextlib import suppress

import numpy as np

_LARGE_BYTES = 256 << 10
_POPULATE_READ = 22
"""Linux's MADV_POPULATE_READ, which `mmap` has no name for; unknown before 5.14, where pages fault in."""
_ENTRY_BYTES = 8
_HERE, _OF_FILE = 0xC0, 0x20
"""Bits of the last byte of a pagemap entry: in memory or swapped out; a page of a file."""


def populate(mapping: mmap.mmap, start: int, end: int) -> bool:
    """Maps the pages of a stretch by one call instead of a fault for each few; False: it is too short."""
    if end - start < _LARGE_BYTES:
        return False
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    with suppress(OSError):
        mapping.madvise(_POPULATE_READ, first, end - first)
    return True


class FileMapping:
    """A private mapping of a whole file; `name` is the segment that the file was last seen as."""

    def __init__(self, file: int, size: int, name: str) -> None:
        self.name = name
        self.size = size
        self._mapping = mmap.mmap(file, size, access=mmap.ACCESS_COPY)
        self._address = np.frombuffer(self._mapping, np.uint8).ctypes.data
        self._view: Callable[[], np.ndarray | None] = lambda: None
        self._populated = 0
        self._seen = (size, 0)

    def view(self, watch: Callable[[np.ndarray], object]) -> np.ndarray:
        """uint8 [size]; it keeps the mapping for as long as it is there.

        It is one object as long as somebody has it; `watch` hears of it when it is made.
        """
        view = self._view()
        if view is None:
            view = np.frombuffer(self._mapping, np.uint8)
            self._view = weakref.ref(view)
            watch(view)
        return view

    def expect(self, offset: int, length: int) -> None:
        """Somebody is about to look at this stretch."""
        end = offset + length
        if end > self._populated:
            populate(self._mapping, max(offset, self._populated), end)
            self._populated = end
        self._seen = (min(self._seen[0], offset), max(self._seen[1], end))

    def refresh(self) -> None:
        """Drops pages that somebody wrote to among those seen since the last call; no view may be in use."""
        start, end = self._seen[0] // mmap.PAGESIZE, -(-self._seen[1] // mmap.PAGESIZE)
        self._seen = (self.size, 0)
        if start < end and self._is_written(start, end):
            self._mapping.madvise(mmap.MADV_DONTNEED)
            self._populated = 0

    def _is_written(self, start: int, end: int) -> bool:
        """Whether one of these pages has become this process's own; True where that cannot be known."""
        first = self._address // mmap.PAGESIZE
        raw = bytearray((end - start) * _ENTRY_BYTES)
        try:
            file = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            read = os.preadv(file, [raw], (first + start) * _ENTRY_BYTES)
        except OSError:
            return True
        finally:
            os.close(file)
        flags = np.frombuffer(raw, np.uint8)[_ENTRY_BYTES - 1 :: _ENTRY_BYTES]
        own = (flags & _HERE != 0) & (flags & _OF_FILE == 0)
        return read != len(raw) or bool(own.any())
