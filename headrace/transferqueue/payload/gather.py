"""The columns of a lease, put together from the blocks that its rows were written in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.transferqueue.arrays import same_bytes
from headrace.transferqueue.errors import PayloadError
from headrace.transferqueue.rows import pick


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A block's batch; row `positions[i]` of the lease has its cells at `indices[i]`. Both int64 [n]."""

    batch: pa.RecordBatch
    positions: np.ndarray
    indices: np.ndarray

    def differs(self, batch: pa.RecordBatch, rows: np.ndarray) -> str | None:
        """A column with other bytes in `batch`, where the lease's row at `p` is at `rows[p]`; None: none."""
        for name in self.batch.schema.names:
            if name in batch.schema.names:
                here = pick(self.batch.column(name), self.indices)
                if not same_bytes(here, pick(batch.column(name), rows[self.positions])):
                    return name
        return None


def gather(names: Sequence[str], pieces: Sequence[Piece], rows: int) -> dict[str, pa.Array]:
    """The `rows` cells of each column in lease order; a view where one block holds them in a row.

    PayloadError where a row has no cell. A row that has two cells of a column, which then are the same, gets
    the first.
    """
    held = [frozenset(piece.batch.schema.names) for piece in pieces]
    orders: dict[tuple[int, ...], np.ndarray | None] = {}
    columns = {}
    for name in names:
        having = tuple(number for number, there in enumerate(held) if name in there)
        if having not in orders:
            orders[having] = _order(name, [pieces[number] for number in having], rows)
        parts = [pick(pieces[number].batch.column(name), pieces[number].indices) for number in having]
        column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        order = orders[having]
        columns[name] = column if order is None else column.take(pa.array(order))
    return columns


def _order(name: str, pieces: Sequence[Piece], rows: int) -> np.ndarray | None:
    """int64 [rows]: where each row's cell is in the pieces, one after another; None: in order already."""
    positions = np.concatenate([piece.positions for piece in pieces]) if pieces else np.empty(0, np.int64)
    if np.array_equal(positions, np.arange(rows)):
        return None
    order = np.full(rows, -1, np.int64)
    order[positions[::-1]] = np.arange(len(positions))[::-1]
    if (order < 0).any():
        raise PayloadError(f"column {name!r} has cells for {int((order >= 0).sum())} of {rows} rows")
    return order
