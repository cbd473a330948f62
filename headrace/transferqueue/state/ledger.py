"""How rows ended: trained, dropped, quarantined or simply done; and what training saw of them.

Invariant: every row ever created is either in the table or counted here once, so that what is lost is a
difference of counts and not an opinion.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np

from headrace.transferqueue.errors import StepRefused
from headrace.transferqueue.state.records import Row

QUARANTINE_SHOWN = 100
"""Quarantined rows whose error is kept; older ones are only counted."""


class RangeSet:
    """A set of integers kept as disjoint runs, since uids mostly follow one another."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._starts, value) - 1
        return at >= 0 and value < self._ends[at]

    def common(self, values: Sequence[int]) -> list[int]:
        """Those of `values` that are in the set."""
        if not values or not self._touches(min(values), max(values)):
            return []
        return [value for value in values if value in self]

    def add(self, value: int) -> None:
        self._add_run(value, value + 1)

    def update(self, values: Sequence[int]) -> None:
        """Adds values that differ from each other."""
        if values and max(values) - min(values) + 1 == len(values):
            self._add_run(min(values), max(values) + 1)
        else:
            for value in values:
                self.add(value)

    def discard(self, value: int) -> None:
        if value not in self:
            return
        at = bisect_right(self._starts, value) - 1
        start, end = self._starts[at], self._ends[at]
        parts = [(start, value), (value + 1, end)]
        kept = [part for part in parts if part[0] < part[1]]
        self._starts[at : at + 1] = [part[0] for part in kept]
        self._ends[at : at + 1] = [part[1] for part in kept]

    def _touches(self, least: int, greatest: int) -> bool:
        return bisect_right(self._ends, least) < bisect_right(self._starts, greatest)

    def _add_run(self, start: int, end: int) -> None:
        """Adds [start, end), which swallows the runs that it overlaps or adjoins."""
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]


class Ledger:
    """Counts of ended rows and the record of committed steps."""

    def __init__(self, *, first_step: int) -> None:
        self.step = first_step
        self.created = 0
        self.trained = 0
        self.finished = 0
        self.duplicated = 0
        self.violations = 0
        self.dropped: Counter[str] = Counter()
        self.quarantined = 0
        self.quarantine: dict[int, str] = {}
        self.staleness: Counter[int] = Counter()
        self.last_reasons: dict[int, str] = {}
        self.newest_group = -1
        """Greatest number of a group that was ever put."""
        self.dispatched_lengths = [0, 0]
        self.trained_lengths = [0, 0]
        self._gone = RangeSet()
        self._dropped_uids = RangeSet()
        self._steps: dict[int, np.ndarray] = {}

    def is_gone(self, uid: int) -> bool:
        return uid in self._gone

    def gone(self, uids: Sequence[int]) -> list[int]:
        """Those of `uids` whose rows have been and gone."""
        return self._gone.common(uids)

    def was_dropped(self, uid: int) -> bool:
        return uid in self._dropped_uids

    def committed(self, step: int) -> np.ndarray:
        """int64 [n], sorted: the rows of a committed step."""
        return self._steps[step]

    def is_repeat(self, step: int, uids: list[int]) -> bool:
        """Whether the step is committed with these rows; StepRefused if with others or not due."""
        if len(set(uids)) != len(uids):
            raise StepRefused(f"step {step} names a row twice; every row is trained on once")
        if step in self._steps:
            if np.array_equal(self._steps[step], np.sort(np.asarray(uids, np.int64))):
                return True
            self.duplicated += len(np.intersect1d(self._steps[step], np.asarray(uids, np.int64)))
            raise StepRefused(f"step {step} is committed already, with {len(self._steps[step])} other rows")
        if step != self.step:
            raise StepRefused(f"step {step} is not due; the next to commit is {self.step}")
        return False

    def commit(self, step: int, uids: list[int]) -> None:
        self._steps[step] = np.sort(np.asarray(uids, np.int64))
        self.trained += len(uids)
        self.step = step + 1

    def undo(self, step: int, rows: list[Row], *, length_label: str) -> None:
        """Takes back the newest step, as if its rows had not been trained on."""
        del self._steps[step]
        self.step = step
        self.trained -= len(rows)
        for row in rows:
            if row.version >= 0:
                self.staleness[step - row.version] -= 1
                self.violations -= step - row.version > row.unit.slack
            _count_length(self.trained_lengths, row.lengths.get(length_label), by=-1)
            self._gone.discard(row.uid)
        self.staleness = +self.staleness

    def train(self, row: Row, step: int, length: int | None) -> None:
        """One consumed row: its staleness, and whether it kept the bound."""
        if row.version >= 0:
            staleness = step - row.version
            self.staleness[staleness] += 1
            self.violations += staleness > row.unit.slack
        _count_length(self.trained_lengths, length)

    def dispatch(self, length: int | None) -> None:
        """One generated row, whatever becomes of it."""
        _count_length(self.dispatched_lengths, length)

    def drop(self, uid: int, reason: str) -> None:
        self.dropped[reason] += 1
        self._dropped_uids.add(uid)
        self._gone.add(uid)

    def put_in_quarantine(self, uid: int, reason: str) -> None:
        self.quarantined += 1
        self.quarantine[uid] = reason
        if len(self.quarantine) > QUARANTINE_SHOWN:
            del self.quarantine[next(iter(self.quarantine))]
        self._gone.add(uid)

    def retire(self, rows: Sequence[Row]) -> None:
        """Rows that every task is done with."""
        self.finished += sum([row.step < 0 for row in rows])
        self._gone.update([row.uid for row in rows])

    def lost(self, unconsumed: int) -> int:
        """Rows created and not accounted for, given those in the table that no step has consumed."""
        ended = self.trained + self.finished + self.quarantined + sum(self.dropped.values())
        return self.created - ended - unconsumed


def _count_length(total: list[int], length: int | None, *, by: int = 1) -> None:
    if length is not None:
        total[0] += by
        total[1] += by * length
