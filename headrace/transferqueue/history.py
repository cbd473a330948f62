"""Committed steps that no checkpoint covers yet: kept, so that a trainer may come back to one of them.

    commit(step) ─► kept ─► checkpointed(step) ─► gone
                     └─ rewind(step) ─► handed out again ─► commit(step) ─► kept

Invariant: until the trainer is back where it was, its leases give the rows of each step as they were
committed, in that order, and no other row.
"""

from collections.abc import Iterator

from headrace.transferqueue.records import Row


class History:
    """The steps of one table's train task; `first_step` is where its life begins."""

    def __init__(self, first_step: int) -> None:
        self.covered = first_step
        """Steps below it are safe in a checkpoint and never handed out again."""
        self._steps: dict[int, list[Row]] = {}
        self._again: dict[int, list[Row]] = {}

    def add(self, step: int, rows: list[Row]) -> None:
        self._again.pop(step, None)
        self._steps[step] = rows

    def undo(self, step: int) -> list[Row]:
        """The rows of a committed step, which are to be handed out again."""
        rows = self._again[step] = self._steps.pop(step)
        return rows

    def cover(self, step: int) -> list[Row]:
        """A checkpoint holds all steps below `step`; returns their rows."""
        self.covered = max(self.covered, step)
        return [row for each in sorted(self._steps) if each < step for row in self._steps.pop(each)]

    def fork(self, step: int) -> None:
        """Steps from `step` on will not come again as they were."""
        for each in [each for each in self._again if each >= step]:
            del self._again[each]

    def is_again(self, step: int) -> bool:
        return step in self._again

    def lots(self, step: int, *, whole: bool) -> list[list[Row]]:
        """What `step` was made of, in its order: whole groups, or single rows."""
        rows = self._again[step]
        if not whole:
            return [[row] for row in rows]
        groups: dict[int, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.group.number, []).append(row)
        return list(groups.values())

    def forget(self, row: Row) -> None:
        """The row was dropped; a step that loses one takes others in its place."""
        for step, rows in list(self._again.items()):
            if row in rows:
                del self._again[step]

    def kept(self) -> Iterator[Row]:
        """Rows that have left the table and may come back."""
        return (row for rows in self._steps.values() for row in rows if row.kept)
