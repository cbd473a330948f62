"""Rows as a consumer sees them: whole columns, zero-copy views of the payload where it allows.

Invariant: every array of a `Rows` has one entry per row, in the same order; the views are read-only and
keep the memory they look at alive.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.transferqueue.errors import SchemaError
from headrace.transferqueue.link.wire import read_ints, unpack
from headrace.transferqueue.schema import Column, TableSpec
from headrace.transferqueue.tensors import arrow_to_tensors, as_torch


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

        Numbers: a NumPy array [n]; tensors: a NumPy array [n, *shape]; list columns: a list of n NumPy views;
        strings: a list of str; json: a list of decoded objects. Raises KeyError with the columns read.
        """
        array, declared = self.arrow(column), self.spec.column(column)
        if declared.shape is not None:
            return arrow_to_tensors(declared, array)
        if declared.is_list():
            values = array.values.to_numpy(zero_copy_only=False)
            ends = array.offsets.to_numpy().tolist()
            return [values[start:end] for start, end in pairwise(ends)]
        if declared.dtype == "string":
            return array.to_pylist()
        if declared.dtype == "json":
            return [json.loads(text) for text in array.to_pylist()]
        return array.to_numpy(zero_copy_only=False)

    def arrow(self, column: str) -> pa.Array:
        """The cells as an Arrow array, of the type that `Column` declares whatever the rows."""
        if column not in self.columns:
            raise KeyError(f"column {column!r} was not read; these were: {', '.join(self.columns)}")
        return self.columns[column]

    def torch(self, column: str) -> Any:
        """Values of a column of numbers as torch tensors on the same memory (bool is copied).

        Numbers: a tensor [n]; tensors: [n, *shape]; lists: a list of n tensors. Writing to one changes this
        reader's view alone. Raises SchemaError on strings and json, which torch has no type for.
        """
        array, declared = self.arrow(column), self.spec.column(column)
        if declared.dtype in ("string", "json"):
            raise SchemaError(f"column {column!r} is {declared.dtype}; read it as rows[{column!r}]")
        if declared.shape is not None:
            return as_torch(array.flatten()).reshape(len(array), *declared.shape)
        if not declared.is_list():
            return as_torch(array)
        ends = array.offsets.to_numpy().tolist()
        values = as_torch(array.values)
        return [values[start:end] for start, end in pairwise(ends)]

    def select(self, index: np.ndarray) -> "Rows":
        """The rows at `index` (int [k]), in that order."""
        index = np.asarray(index, np.int64)
        return Rows(
            uids=self.uids[index],
            groups=self.groups[index],
            attempts=self.attempts[index],
            versions=self.versions[index],
            carries=tuple(self.carries[i] for i in index.tolist()),
            columns={name: pick(array, index) for name, array in self.columns.items()},
            spec=self.spec,
        )

    def with_columns(self, values: Mapping[Column, Any]) -> "Rows":
        """These rows with further columns, one value per row in each.

        Raises SchemaError where values do not fit their column (`Column.to_arrow`), are more or fewer than
        the rows, or where the table has a column of that name.
        """
        added = {column.name: column.to_arrow(given) for column, given in values.items()}
        for name, array in added.items():
            if len(array) != len(self):
                raise SchemaError(
                    f"column {name!r} has {len(array)} cells for {len(self)} rows; one each is due"
                )
        spec = replace(self.spec, columns=(*self.spec.columns, *values))
        return replace(self, columns={**self.columns, **added}, spec=spec)

    def by_group(self) -> Iterator["Rows"]:
        """One `Rows` per group, in lease order."""
        if not len(self):
            return
        starts = np.flatnonzero(np.diff(self.groups, prepend=self.groups[0] - 1))
        for start, end in zip(starts, [*starts[1:], len(self)], strict=True):
            yield self.select(np.arange(start, end))


def pick(array: pa.Array, index: np.ndarray) -> pa.Array:
    """The cells at `index`, without a copy where they follow one another."""
    if len(index) and np.all(np.diff(index) == 1):
        return array.slice(int(index[0]), len(index))
    return array.take(pa.array(index))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Rows handed to one holder until its deadline; the client renews it while it is held."""

    id: int
    task: str
    table: str
    rows: Rows = field(repr=False)
    again: bool = False
    """Of a train task: whether its step was committed before and is gone through again after a rewind; it is
    then made of the same rows, and dropping one would make another batch of it."""

    def __len__(self) -> int:
        return len(self.rows)


def carried(packed: Mapping[int, bytes], rows: int) -> tuple[dict[str, Any] | None, ...]:
    """What each of `rows` carries, from the packed carries by their place among them."""
    if not packed:
        return (None,) * rows
    return tuple(unpack(packed[row]) if row in packed else None for row in range(rows))


def handing_back(table: str, lease: int, reason: str) -> dict[str, Any]:
    """What `release` is asked for rows that nobody failed on: all that a lease still holds."""
    return {"table": table, "lease": lease, "uids": None, "reason": reason, "failed": False, "carry": []}


def leased(body: Mapping[str, Any], columns: dict[str, pa.Array], spec: TableSpec) -> Rows:
    """The rows that an answer gives to a lease, with the cells that were read of them."""
    uids = read_ints(body["uids"])
    return Rows(
        uids=uids,
        groups=read_ints(body["groups"]),
        attempts=read_ints(body["attempts"]).astype(np.int32),
        versions=read_ints(body["versions"]),
        carries=carried(body["carries"], len(uids)),
        columns=columns,
        spec=spec,
    )
