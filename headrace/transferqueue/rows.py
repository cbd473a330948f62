"""Rows as a consumer sees them: whole columns, zero-copy views of the payload where it allows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.transferqueue.schema import TableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Leased rows, in lease order; rows of one group stand together.

    `uids`, `groups`: int64 [n]; `attempts`: int32 [n], 1 for a row leased for the first time;
    `versions`: int64 [n], the behaviour version recorded when the row was begun, -1 before that;
    `carries`: what an interrupted lease left behind, None for most rows.
    """

    uids: np.ndarray
    groups: np.ndarray
    attempts: np.ndarray
    versions: np.ndarray
    carries: tuple[dict[str, Any] | None, ...]
    columns: dict[str, pa.Array] = field(repr=False)
    spec: TableSpec = field(repr=False)

    def __len__(self) -> int:
        return len(self.uids)

    def __getitem__(self, column: str) -> Any:
        """Values of a column by its type.

        Numbers: a NumPy array [n]; list columns: a list of n NumPy views; strings: a list of str;
        json: a list of decoded objects. Raises KeyError with the columns that were read.
        """
        ...

    def select(self, index: np.ndarray) -> "Rows":
        """The rows at `index` (int [k]), in that order."""
        ...

    def by_group(self) -> Iterator["Rows"]:
        """One `Rows` per group, in lease order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Rows handed to one holder until `deadline_s` (renewed by the client while it is held)."""

    id: int
    task: str
    table: str
    rows: Rows = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)
