"""Committed steps that no checkpoint covers yet: kept, so that a trainer may come back to one of them.

    commit(step) ─► kept ─► checkpointed(step) ─► gone
                     └─ rewind(step) ─► handed out again ─► commit(step) ─► kept

Invariant: until the trainer is back where it was, its leases give the rows of each step as they were leased
and committed, in that order and cut in the same places, and no other row: sums of floats come out the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.transferqueue.state.records import Row


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """What a step was made of."""

    rows: list[Row]
    """In the order of its commit."""
    ends: set[int]
    """Uids of those that were the last of their lease."""


class History:
    """The steps of one table's train task; `first_step` is where its life begins."""

    def __init__(self, first_step: int) -> None:
        self.covered = first_step
        """Steps below it are safe in a checkpoint and never handed out again."""
        self._steps: dict[int, Step] = {}
        self._again: dict[int, Step] = {}

    def add(self, step: int, rows: list[Row], *, task: int) -> None:
        """The rows of a step, while the train task of this index still holds them."""
        leases = [row.leases[task].id for row in rows]
        following = [*leases, 0][1:]
        cuts = zip(rows, leases, following, strict=True)
        ends = {row.uid for row, lease, next_lease in cuts if lease != next_lease}
        self._again.pop(step, None)
        self._steps[step] = Step(rows=rows, ends=ends)

    def undo(self, step: int) -> list[Row]:
        """The rows of a committed step, which are to be handed out again."""
        self._again[step] = self._steps.pop(step)
        return self._again[step].rows

    def cover(self, step: int) -> list[Row]:
        """A checkpoint holds all steps below `step`; returns their rows."""
        self.covered = max(self.covered, step)
        return [row for each in sorted(self._steps) if each < step for row in self._steps.pop(each).rows]

    def fork(self, step: int) -> None:
        """Steps from `step` on will not come again as they were."""
        for each in [each for each in self._again if each >= step]:
            del self._again[each]

    def is_again(self, step: int) -> bool:
        return step in self._again

    def lots(self, step: int, *, whole: bool) -> list[list[Row]]:
        """What `step` was made of, in its order: whole groups, or single rows."""
        rows = self._again[step].rows
        if not whole:
            return [[row] for row in rows]
        groups: dict[int, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.group.number, []).append(row)
        return list(groups.values())

    def ends_lease(self, step: int, row: Row) -> bool:
        """Whether the row was the last of its lease when `step`, which is made again, was made."""
        return step in self._again and row.uid in self._again[step].ends

    def forget(self, row: Row) -> None:
        """The row left for good; a step that loses one takes others in its place, and so do later ones."""
        steps = [step for step, made in self._again.items() if row in made.rows]
        if steps:
            self.fork(min(steps))

    def kept(self) -> Iterator[Row]:
        """Rows that have left the table and may come back."""
        return (row for made in self._steps.values() for row in made.rows if row.kept)
