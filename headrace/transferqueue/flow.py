"""One task's way through its table: which rows wait, are ready, are leased, are done.

Invariant: a row is in at most one of ready, leased and done for a task; with whole groups, a group is a
lot exactly while every member that the task is not done with is ready.
"""

from collections import Counter

from headrace.transferqueue.errors import SchemaError
from headrace.transferqueue.records import NOTHING, Group, Held, Row
from headrace.transferqueue.samplers.base import Ask, Lot, Sampler, Setting, rows_of
from headrace.transferqueue.samplers.choice import choose
from headrace.transferqueue.schema import Task
from headrace.transferqueue.staleness import Window


class Flow:
    """The rows of a table as one task sees them; says when a lot becomes ready."""

    def __init__(self, task: Task, *, index: int, reads: int, writes: int, window: Window | None) -> None:
        self.task = task
        self.index = index
        self.bit = 1 << index
        self.reads = reads
        self.writes = writes
        self.pending = 0
        self.ready = 0
        self.leased: Counter[str] = Counter()
        gated = window if task.kind != "work" else None
        self.sampler: Sampler = choose(task, Setting(is_ready=self._is_ready, bit=self.bit, window=gated))

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

    def head(self, ask: Ask) -> Lot | None:
        """The lot to lease next; None: none may be leased now."""
        return self.sampler.head(ask)

    def taken(self, rows: list[Row], ask: Ask) -> None:
        """The rows of the head are about to be leased."""
        self.sampler.taken(rows[0].group if self.task.needs_full_group else rows[0], ask)

    def rows_of(self, lot: Lot) -> list[Row]:
        return rows_of(lot, self.bit)

    def join(self, row: Row) -> None:
        """A new row, not yet ready."""
        self.pending += 1
        row.group.pending[self.index] += 1

    def offer(self, row: Row) -> bool:
        """Makes a row ready once all that the task reads is there; True: a lot became ready by it."""
        if (
            row.written & self.reads != self.reads
            or (row.ready | row.leased | row.done | row.parked) & self.bit
        ):
            return False
        row.ready |= self.bit
        self.ready += 1
        row.group.ready[self.index] += 1
        if self.task.needs_full_group:
            return self._offer_group(row.group)
        self.sampler.push(row)
        return True

    def requeue(self, row: Row) -> None:
        """The row's place in the order has changed."""
        if row.ready & self.bit:
            self.sampler.push(row.group if self.task.needs_full_group else row)

    def take(self, row: Row, held: Held) -> None:
        self._unready(row)
        row.leased |= self.bit
        row.leases = {**row.leases, self.index: held} if row.leases else {self.index: held}
        held.rows[row.uid] = row
        self.leased[held.holder] += 1

    def give_back(self, row: Row) -> Held:
        """Takes the row out of its lease; what follows is `offer`, `finish` or `leave`."""
        row.leased &= ~self.bit
        held = row.leases[self.index]
        others = {task: other for task, other in row.leases.items() if other is not held}
        row.leases = others or NOTHING
        del held.rows[row.uid]
        self.leased[held.holder] -= 1
        if not self.leased[held.holder]:
            del self.leased[held.holder]
        return held

    def reopen(self, row: Row) -> None:
        """What the task had finished is to be done again; `offer` follows."""
        row.done &= ~self.bit
        self.join(row)

    def withdraw(self, row: Row) -> None:
        """The row is no longer ready, if it was."""
        if row.ready & self.bit:
            self._unready(row)

    def finish(self, row: Row) -> bool:
        """The task is done with the row; True: its group became a lot by it."""
        row.done |= self.bit
        return self._depart(row)

    def leave(self, row: Row) -> bool:
        """The row leaves the table unfinished; True: its group became a lot by it."""
        if row.done & self.bit:
            return False
        if row.ready & self.bit:
            self._unready(row)
        return self._depart(row)

    def is_exhausted(self, holder: str) -> bool:
        """Whether no row is left; those that a trainer holds itself will not come to it again."""
        own = self.leased.get(holder, 0) if self.task.kind == "train" else 0
        return self.pending == own

    def _depart(self, row: Row) -> bool:
        self.sampler.forget(row)
        self.pending -= 1
        row.group.pending[self.index] -= 1
        return self.task.needs_full_group and self._offer_group(row.group)

    def _unready(self, row: Row) -> None:
        row.ready &= ~self.bit
        self.ready -= 1
        row.group.ready[self.index] -= 1

    def _offer_group(self, group: Group) -> bool:
        if not self._is_ready(group):
            return False
        self.sampler.push(group)
        return True

    def _is_ready(self, lot: Lot) -> bool:
        if isinstance(lot, Row):
            return bool(lot.ready & self.bit)
        return 0 < lot.pending[self.index] == lot.ready[self.index]
