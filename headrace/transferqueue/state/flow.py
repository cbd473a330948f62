"""One task's way through its table: which rows wait, are ready, are leased, are done.

Invariant: a row is in at most one of ready, leased and done for a task; with whole groups, a group is a
lot exactly while every member that the task is not done with is ready.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from headrace.transferqueue.errors import SchemaError
from headrace.transferqueue.schema import TableSpec, Task
from headrace.transferqueue.state.records import NOTHING, Group, Held, Row
from headrace.transferqueue.state.samplers.base import Ask, Sampler, Setting
from headrace.transferqueue.state.samplers.choice import choose
from headrace.transferqueue.state.staleness import Window


class Flow:
    """The rows of a table as one task sees them; says when a lot becomes ready."""

    def __init__(self, task: Task, *, index: int, reads: int, writes: int, window: Window | None) -> None:
        self.task = task
        self.index = index
        self.bit = 1 << index
        self.reads = reads
        self.writes = writes
        self.whole = task.needs_full_group
        self.pending = 0
        self.ready = 0
        self.leased: Counter[str] = Counter()
        gated = window if task.kind != "work" else None
        is_ready: Callable[[Any], bool] = self._is_lot if self.whole else self._is_ready
        self._setting = Setting(is_ready=is_ready, bit=self.bit, window=gated)
        self.sampler: Sampler = choose(task, self._setting)

    def ask(self, version: int, rank: int | None, *, ended: bool) -> Ask:
        """SchemaError on a rank that the task's sampler has no use for, or lacks."""
        sampling = self.task.sampling
        ranks = sampling.ranks if sampling is not None and sampling.kind == "token_balanced" else None
        if (ranks is None and rank is not None) or (
            ranks is not None and (rank is None or not 0 <= rank < ranks)
        ):
            raise SchemaError(
                f"task {self.task.name!r} got rank {rank}; allowed are "
                + ("None, as it is not balanced over ranks" if ranks is None else f"0 to {ranks - 1}")
            )
        return Ask(version=version, rank=rank, ended=ended)

    def heads(self, ask: Ask, most: int) -> list[Row]:
        """The rows to lease next: up to `most`, or those of one whole group; none may be leased now: []."""
        if not self.whole:
            return cast(list[Row], self.sampler.heads(ask, most))
        groups = cast(list[Group], self.sampler.heads(ask, 1))
        return [row for group in groups for row in group.rows.values() if row.ready & self.bit]

    def join(self, rows: Sequence[Row]) -> None:
        """New rows, not yet ready."""
        self.pending += len(rows)
        if self.whole:
            for row in rows:
                row.group.pending[self.index] += 1

    def offer(self, rows: Iterable[Row]) -> bool:
        """Makes rows ready that have all that the task reads; True: a lot became ready by it."""
        reads, bit = self.reads, self.bit
        fresh = [
            row
            for row in rows
            if row.written & reads == reads and not (row.ready | row.leased | row.done | row.parked) & bit
        ]
        for row in fresh:
            row.ready |= bit
        self.ready += len(fresh)
        if self.whole:
            for row in fresh:
                row.group.ready[self.index] += 1
            return self._offer_groups(fresh)
        self.sampler.push(fresh)
        return bool(fresh)

    def requeue(self, row: Row) -> None:
        """The row's place in the order has changed."""
        if row.ready & self.bit:
            self.sampler.push([row.group if self.whole else row])

    def sort_anew(self, rows: Iterable[Row]) -> None:
        """Deadlines have changed under the order of the lots: it is made again from all `rows` there are."""
        state = self.sampler.state()
        self.sampler = choose(self.task, self._setting)
        self.sampler.restore(state)
        ready = [row for row in rows if row.ready & self.bit]
        if self.whole:
            self._offer_groups(ready)
        else:
            self.sampler.push(ready)

    def take(self, rows: Sequence[Row], held: Held, ask: Ask) -> None:
        """Leases ready rows, the heads or a part of a step that is gone through again."""
        self.sampler.taken([rows[0].group] if self.whole else rows, ask)
        self._unready(rows)
        before = after = None
        for row in rows:
            if after is None or row.leases is not before:
                before, after = row.leases, {**row.leases, self.index: held}
            row.leased |= self.bit
            row.leases = after
            held.rows[row.uid] = row
        self.leased[held.holder] += len(rows)

    def give_back(self, held: Held, rows: Sequence[Row]) -> None:
        """Takes rows out of their lease; what follows is `offer`, `finish` or `leave`."""
        before = after = NOTHING
        for row in rows:
            if row.leases is not before:
                before = row.leases
                after = {task: other for task, other in before.items() if other is not held} or NOTHING
            row.leased ^= self.bit
            row.leases = after
            del held.rows[row.uid]
        self.leased[held.holder] -= len(rows)
        if not self.leased[held.holder]:
            del self.leased[held.holder]

    def reopen(self, row: Row) -> None:
        """What the task had finished is to be done again; `offer` follows."""
        row.done &= ~self.bit
        row.passed &= ~self.bit
        self.join([row])

    def withdraw(self, row: Row) -> None:
        """The row is no longer ready, if it was."""
        if row.ready & self.bit:
            self._unready([row])

    def finish(self, rows: Sequence[Row]) -> bool:
        """The task is done with the rows; True: a group became a lot by it."""
        for row in rows:
            row.done |= self.bit
        return self._depart(rows)

    def pass_over(self, rows: Sequence[Row]) -> None:
        """New rows come to a task that is over."""
        for row in rows:
            row.passed |= self.bit
        self.finish(rows)

    def leave(self, row: Row) -> bool:
        """The row leaves the table unfinished; True: its group became a lot by it."""
        if row.done & self.bit:
            return False
        self.withdraw(row)
        return self._depart([row])

    def is_exhausted(self, holder: str) -> bool:
        """Whether no row is left; those that a trainer holds itself will not come to it again."""
        own = self.leased.get(holder, 0) if self.task.kind == "train" else 0
        return self.pending == own

    def _depart(self, rows: Sequence[Row]) -> bool:
        self.sampler.forget(rows)
        self.pending -= len(rows)
        if not self.whole:
            return False
        for row in rows:
            row.group.pending[self.index] -= 1
        return self._offer_groups(rows)

    def _unready(self, rows: Sequence[Row]) -> None:
        self.ready -= len(rows)
        for row in rows:
            row.ready ^= self.bit
            if self.whole:
                row.group.ready[self.index] -= 1

    def _offer_groups(self, rows: Sequence[Row]) -> bool:
        lots = [group for group in dict.fromkeys(row.group for row in rows) if self._is_lot(group)]
        self.sampler.push(lots)
        return bool(lots)

    def _is_ready(self, row: Row) -> bool:
        return bool(row.ready & self.bit)

    def _is_lot(self, group: Group) -> bool:
        return 0 < group.pending[self.index] == group.ready[self.index]


def make_flows(spec: TableSpec, bits: Mapping[str, int], window: Window | None) -> dict[str, Flow]:
    """Flows by task. A train task reads what begin tasks write too: it takes no row that nobody generated."""

    def mask(names: Iterable[str]) -> int:
        return sum({bits[name] for name in names})

    begun = mask(name for task in spec.tasks if task.kind == "begin" for name in task.writes)
    return {
        task.name: Flow(
            task,
            index=index,
            reads=mask(task.reads) | (begun if task.kind == "train" else 0),
            writes=mask(task.writes),
            window=window,
        )
        for index, task in enumerate(spec.tasks)
    }
