"""Where blocks are, and reading them: every client maps the segments that it reads.

A block is one Arrow IPC stream (schema, one record batch) at a 64-byte boundary of a segment file. Its bytes
do not change while a row needs it or somebody may look at it. A segment's name is used once: where its file
is written again it is another segment, and a view outlives the file, since it holds the mapping.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from headrace.transferqueue.errors import CellsDamaged, PayloadError
from headrace.transferqueue.payload.mapping import FileMapping
from headrace.transferqueue.payload.views import Views

SPARE = ".spare"
"""Ends the name of a file that nobody needs and its owner may write again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Where a block is."""

    segment: str
    offset: int
    length: int
    checksum: int = 0
    """See `checksum`; 0 where none was taken, in memory."""
    node: str = ""
    """The node whose storage unit has it; "": the controller's."""


def segment_name(owner: str, number: int) -> str:
    """File name of the `number`-th segment of a client."""
    return f"{owner}-{number:06d}.arrows"


def is_whole(path: Path, offset: int, length: int, known: int) -> bool:
    """Whether a block's bytes are the ones that were written: all there, and of the `known` checksum."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(length)
    except OSError:
        return False
    return len(content) == length and (not known or checksum([content]) == known)


def require_whole(content: bytes | memoryview, place: Reference) -> None:
    """Raises CellsDamaged where a block's bytes are not of its checksum, if one was taken."""
    if place.checksum and checksum([content]) != place.checksum:
        raise CellsDamaged(
            f"block [{place.offset}, {place.offset + place.length}) of segment {place.segment} is not as it "
            "was written"
        )


def checksum(pieces: Iterable[bytes | memoryview]) -> int:
    """63 bits of XXH3 over the pieces one after another; never 0, which says that none was taken."""
    found = xxhash.xxh3_64()
    for piece in pieces:
        found.update(piece)
    return found.intdigest() >> 1 or 1


class SegmentReader:
    """Maps each file once, whatever segments it is in turn; `views` hears of every one that is made."""

    def __init__(self, directory: Path, views: Views | None = None) -> None:
        self._views = views
        self._directory = directory
        self._files: dict[int, tuple[int, FileMapping]] = {}
        """By inode: a descriptor and the mapping."""
        self._names: dict[str, FileMapping] = {}

    def read(self, reference: Reference) -> pa.RecordBatch:
        """The batch of a block, as views of the mapping. Raises PayloadError when the segment is gone,
        CellsDamaged where its bytes are not those that were written."""
        mapping = self._names.get(reference.segment) or self._open(reference.segment)
        try:
            mapping.expect(reference.offset, reference.length)
            view = mapping.view(partial(self._watch, reference.segment))
            block = pa.py_buffer(view).slice(reference.offset, reference.length)
            require_whole(memoryview(block), reference)
            return pa.ipc.open_stream(block).read_next_batch()
        except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
            raise PayloadError(f"{reference} holds no block: {error}") from error

    def refresh(self, segment: str) -> None:
        """See `FileMapping.refresh`; nobody looks at the segment."""
        if segment in self._names:
            self._names[segment].refresh()

    def forget_unlinked(self) -> None:
        """Lets go of files that the controller has unlinked; views that are in use stay valid."""
        for inode, (file, mapping) in list(self._files.items()):
            if os.fstat(file).st_nlink == 0:
                os.close(file)
                del self._files[inode]
                self._names.pop(mapping.name, None)

    def close(self) -> None:
        for file, _ in self._files.values():
            os.close(file)
        self._files.clear()
        self._names.clear()

    def _watch(self, segment: str, view: np.ndarray) -> None:
        if self._views is not None:
            self._views.watch(view, segment)

    def _open(self, name: str) -> FileMapping:
        path = self._directory / name
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(file)
            mapping = self._known(name, status) or FileMapping(file, status.st_size, name)
        except (OSError, ValueError) as error:
            raise PayloadError(f"segment {path} cannot be read: {error}") from error
        known = self._files.get(status.st_ino)
        if known is not None:
            os.close(known[0])
        self._files[status.st_ino] = file, mapping
        self._names[name] = mapping
        return mapping

    def _known(self, name: str, status: os.stat_result) -> FileMapping | None:
        """The mapping of a file that is another segment now, if it has not grown."""
        if status.st_ino not in self._files:
            return None
        mapping = self._files[status.st_ino][1]
        self._names.pop(mapping.name, None)
        mapping.name = name
        return mapping if mapping.size == status.st_size else None
