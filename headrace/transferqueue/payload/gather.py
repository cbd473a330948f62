"""One column of a lease, put together from the blocks that its rows were written in."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.transferqueue.errors import PayloadError
from headrace.transferqueue.rows import pick

Piece = tuple[pa.RecordBatch, Sequence[int], Sequence[int]]
"""A block's batch, positions in the lease, and the index in the block for each."""


def gather(name: str, pieces: Sequence[Piece], rows: int) -> pa.Array:
    """The `rows` cells of a column in lease order; a view where one block holds them in a row."""
    parts = [
        (np.asarray(positions), pick(batch.column(name), np.asarray(indices)))
        for batch, positions, indices in pieces
        if name in batch.schema.names
    ]
    positions = np.concatenate([at for at, _ in parts]) if parts else np.empty(0, np.int64)
    if len(np.unique(positions)) != rows:
        raise PayloadError(f"column {name!r} has cells for {len(positions)} of {rows} rows")
    column = parts[0][1] if len(parts) == 1 else pa.concat_arrays([cells for _, cells in parts])
    if len(positions) == rows and np.all(positions == np.arange(rows)):
        return column
    _, first = np.unique(positions, return_index=True)
    return column.take(pa.array(first))
