"""Rows on their way into a file: appended as they come, each batch on disk before `append` returns.

Invariant: what `read` gives are whole batches, in the order in which they were appended. A batch that a crash
cut off is not one of them; it was never acknowledged, so its rows come again.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

_HEAD = struct.Struct("<QI")
"""Bytes of the batch that follows, and their checksum."""


class Spool:
    """One file of batches, each an Arrow stream of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, table: pa.Table) -> pa.Table:
        """The table again, in memory of its own."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        batch = sink.getvalue()
        with self._path.open("ab") as file:
            file.write(_HEAD.pack(len(batch), zlib.crc32(batch)))
            file.write(batch)
            file.flush()
            os.fsync(file.fileno())
        return _table(batch)

    def read(self) -> Iterator[pa.Table]:
        """Every whole batch; none where there is no file."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, checksum = _HEAD.unpack(head)
                batch = file.read(length)
                if len(batch) < length or zlib.crc32(batch) != checksum:
                    return
                yield _table(pa.py_buffer(batch))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)


def _table(batch: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(batch) as stream:
        return stream.read_all()
