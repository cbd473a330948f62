"""Brings a branch's rows back to the row that they came from, as one number.

    lease whole groups ─► reduce the rows of each parent ─► put into the parent's row ─► ack

A branch before a join makes one prompt of a row, so that a group is all that came of it. Invariant: a group
is acknowledged after its parent's column is written, or once the parent has left its table. What was written
first stands: a group that comes again, after a lease that was lost, may have fewer rows than it had.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from headrace.services.base import Bridge, Context, Output
from headrace.services.columns import joined
from headrace.services.options import JoinOptions
from headrace.services.owed import give
from headrace.transferqueue import Rows

REDUCE: Final[Mapping[str, Callable[[np.ndarray], np.floating[Any]]]] = {
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "sum": np.sum,
    "std": np.std,
}


class Join:
    """A `Service` of the branch's table, which writes into the parent's."""

    capacity = 1024

    async def setup(self, context: Context) -> None:
        assert context.bridge is not None and context.bridge.origin is not None, "the planner gives them"
        self._context = context
        self._options: JoinOptions = context.options
        self._bridge: Bridge = context.bridge
        self._origin = context.bridge.origin
        self._mark = joined(context.node)

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        by_group: dict[int, list[float]] = defaultdict(list)
        for group, value in zip(rows.groups.tolist(), self._values(rows), strict=True):
            by_group[group].append(value)
        await self._write({self._origin.uid_of(g): self._reduced(found) for g, found in by_group.items()})
        yield Output(uids=rows.uids, columns={self._mark: np.ones(len(rows), dtype=bool)})

    def _values(self, rows: Rows) -> Sequence[float]:
        """One number a row, NaN where there is none."""
        column, _, key = self._options.of.partition(".")
        values = rows[column]
        return [_number(value.get(key) if key else value) for value in values]

    def _reduced(self, values: Sequence[float]) -> float:
        valid = np.array([value for value in values if not np.isnan(value)])
        return float(REDUCE[self._options.reduce](valid)) if len(valid) else float("nan")

    async def _write(self, values: Mapping[int, float]) -> None:
        uids, numbers = np.array(list(values), dtype=np.int64), np.array(list(values.values()))
        passed_over = await give(
            self._context.client, self._bridge.table, uids, {self._options.column: numbers}
        )
        if passed_over:
            self._context.report.event("not_joined", table=self._bridge.table, rows=passed_over)

    async def close(self) -> None:
        """Holds nothing."""


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
