"""Rows that have left a durable queue, kept as they were and read as tables.

    queue/archive/<client>-<number>.arrows   segments that no row in the queue needs any more
    queue/journal.db, table `archive`        (seq, tbl, rows): what left together, and where its cells are

`rows` is msgpack: packed int64 `uids`, `groups`, `steps` (-1: not trained on), `versions` (-1: never begun),
and `blocks`, each [segment, offset, length, positions, indices, checksum, node]: the row at `positions[i]`
has its cells of that Arrow record batch at `indices[i]`. It is committed with the operation that let the rows
go. A segment with some rows gone and some not is still in `queue/`; readers look in both places. Cells of
another node lie in its storage unit's directory in the same way, which readers have to be told of.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from headrace.transferqueue.arrays import arrow_schema
from headrace.transferqueue.disk.chronicle import rehearse
from headrace.transferqueue.disk.journal import read_archived, read_journal
from headrace.transferqueue.errors import PayloadError, UnknownName
from headrace.transferqueue.link.wire import unpack, unpack_ints
from headrace.transferqueue.payload.custody import ARCHIVE
from headrace.transferqueue.payload.segments import Reference, SegmentReader
from headrace.transferqueue.schema import TableSpec

Nodes = Mapping[str, Path | None]
"""Directories of other nodes' storage units, or copies of them; None: cells of that node read as null."""
_KEYS = {"uid": "uids", "group": "groups", "step": "steps", "version": "versions"}


def archived_tables(directory: Path) -> dict[str, TableSpec]:
    """The tables of a queue's directory, which `read_archive` may be asked for."""
    return {name: table.spec for name, table in rehearse(read_journal(directory), directory).tables.items()}


def read_archive(directory: Path, table: str, *, nodes: Nodes = MappingProxyType({})) -> pa.Table:
    """Rows of a table that have left it, in the order in which they did.

    Columns `uid`, `group`, `step`, `version` (int64) and those of the table, null where a row had no such
    cell. UnknownName where there is no such table, PayloadError where cells are on a node that `nodes` does
    not name.
    """
    specs = archived_tables(directory)
    if table not in specs:
        raise UnknownName(f"no table {table!r} in {directory}; there are: {', '.join(specs) or 'none'}")
    schema = arrow_schema(specs[table], [column.name for column in specs[table].columns])
    groups = [unpack(rows) for rows in read_archived(directory, table)]
    elsewhere = {block[-1] for rows in groups for block in rows["blocks"]} - {"", *nodes}
    if elsewhere:
        raise PayloadError(
            f"rows of table {table!r} have cells on nodes {', '.join(sorted(elsewhere))}: give the "
            "directories of their storage units (--node NAME=DIR), or none for nulls (--node NAME=)"
        )
    with _shelves(directory, nodes) as shelves:
        batches = [_batch(rows, schema, shelves) for rows in groups]
    keys = [pa.field(name, pa.int64()) for name in _KEYS]
    return pa.Table.from_batches(batches, pa.schema([*keys, *schema]))


def export(directory: Path, folder: Path, *, nodes: Nodes = MappingProxyType({})) -> list[Path]:
    """Writes `<table>.parquet` for every table into `folder`; returns the files. See `read_archive`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in archived_tables(directory):
        files.append(folder / f"{name}.parquet")
        parquet.write_table(read_archive(directory, name, nodes=nodes), files[-1])
    return files


class _Shelf:
    """The segments of one node: those that are still needed, and those that are not."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._needed = SegmentReader(directory)
        self._kept = SegmentReader(directory / ARCHIVE)

    def read(self, segment: str, offset: int, length: int, checksum: int) -> pa.RecordBatch:
        reader = self._needed if (self._directory / segment).exists() else self._kept
        return reader.read(Reference(segment=segment, offset=offset, length=length, checksum=checksum))

    def close(self) -> None:
        self._needed.close()
        self._kept.close()


@contextmanager
def _shelves(directory: Path, nodes: Nodes) -> Iterator[dict[str, _Shelf]]:
    places = {"": directory, **{node: place for node, place in nodes.items() if place is not None}}
    shelves = {node: _Shelf(place) for node, place in places.items()}
    try:
        yield shelves
    finally:
        for shelf in shelves.values():
            shelf.close()


def _batch(rows: Mapping[str, Any], schema: pa.Schema, shelves: Mapping[str, _Shelf]) -> pa.RecordBatch:
    keys = [np.array(unpack_ints(rows[packed]), np.int64) for packed in _KEYS.values()]
    blocks = [
        (shelves[node].read(segment, offset, length, known), unpack_ints(positions), unpack_ints(indices))
        for segment, offset, length, positions, indices, known, node in rows["blocks"]
        if node in shelves
    ]
    cells = [_cells(field, blocks, len(keys[0])) for field in schema]
    return pa.record_batch([*map(pa.array, keys), *cells], [*_KEYS, *schema.names])


def _cells(
    field: pa.Field, blocks: Sequence[tuple[pa.RecordBatch, list[int], list[int]]], rows: int
) -> pa.Array:
    """One cell per row, null where no block has one."""
    places: list[int | None] = [None] * rows
    parts = [pa.array([], field.type)]
    offset = 0
    for batch, positions, indices in blocks:
        if field.name in batch.schema.names:
            for position, index in zip(positions, indices, strict=True):
                places[position] = offset + index
            parts.append(batch.column(field.name))
            offset += batch.num_rows
    return pa.concat_arrays(parts).take(pa.array(places, pa.int64()))
