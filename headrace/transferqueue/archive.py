"""Rows that have left a durable queue, kept as they were and read as tables.

    queue/archive/<client>-<number>.arrows   segments that no row in the queue needs any more
    queue/journal.db, table `archive`        (seq, tbl, rows): what left together, and where its cells are

`rows` is msgpack: packed int64 `uids`, `groups`, `steps` (-1: not trained on), `versions` (-1: never begun),
and `blocks`, each [segment, offset, length, positions, indices, node]: the row at `positions[i]` has its
cells of that Arrow record batch at `indices[i]`; those of another node went with its storage unit. It is
committed with the operation that let the rows go. A segment with some rows gone and some not is still in
`queue/`; readers look in both places.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from headrace.transferqueue.arrays import arrow_schema
from headrace.transferqueue.chronicle import rehearse
from headrace.transferqueue.errors import UnknownName
from headrace.transferqueue.journal import read_archived, read_journal
from headrace.transferqueue.payload.custody import ARCHIVE
from headrace.transferqueue.payload.segments import Reference, SegmentReader
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.wire import unpack, unpack_ints

_KEYS = {"uid": "uids", "group": "groups", "step": "steps", "version": "versions"}


def archived_tables(directory: Path) -> dict[str, TableSpec]:
    """The tables of a queue's directory, which `read_archive` may be asked for."""
    return {name: table.spec for name, table in rehearse(read_journal(directory), directory).tables.items()}


def read_archive(directory: Path, table: str) -> pa.Table:
    """Rows of a table that have left it, in the order in which they did.

    Columns `uid`, `group`, `step`, `version` (int64) and those of the table, null where a row had no such
    cell. UnknownName where there is no such table.
    """
    specs = archived_tables(directory)
    if table not in specs:
        raise UnknownName(f"no table {table!r} in {directory}; there are: {', '.join(specs) or 'none'}")
    schema = arrow_schema(specs[table], [column.name for column in specs[table].columns])
    here, kept = SegmentReader(directory), SegmentReader(directory / ARCHIVE)
    try:
        batches = [
            _batch(unpack(rows), schema, directory, here, kept) for rows in read_archived(directory, table)
        ]
    finally:
        here.close()
        kept.close()
    keys = [pa.field(name, pa.int64()) for name in _KEYS]
    return pa.Table.from_batches(batches, pa.schema([*keys, *schema]))


def export(directory: Path, folder: Path) -> list[Path]:
    """Writes `<table>.parquet` for every table into `folder`; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in archived_tables(directory):
        files.append(folder / f"{name}.parquet")
        parquet.write_table(read_archive(directory, name), files[-1])
    return files


def _batch(
    rows: Mapping[str, Any], schema: pa.Schema, directory: Path, here: SegmentReader, kept: SegmentReader
) -> pa.RecordBatch:
    keys = [np.array(unpack_ints(rows[packed]), np.int64) for packed in _KEYS.values()]
    blocks = []
    for segment, offset, length, positions, indices, node in rows["blocks"]:
        if node:
            continue
        reader = here if (directory / segment).exists() else kept
        batch = reader.read(Reference(segment=segment, offset=offset, length=length))
        blocks.append((batch, unpack_ints(positions), unpack_ints(indices)))
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
