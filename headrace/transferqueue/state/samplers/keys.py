"""What lots are ordered by, the least key first. Keys are plain data, so that a sampler can be kept."""

from dataclasses import dataclass

from headrace.transferqueue.state.records import Group, Row
from headrace.transferqueue.state.samplers.base import Lot, deadline


@dataclass(frozen=True, slots=True)
class Oldest:
    """The order in which rows were put."""

    def __call__(self, lot: Lot) -> tuple[float, ...]:
        return (lot.serial,)


@dataclass(frozen=True, slots=True)
class EarliestDue:
    """The unit due first; of those due together the lowest group."""

    def __call__(self, lot: Lot) -> tuple[float, ...]:
        return deadline(lot), (lot.number if isinstance(lot, Group) else lot.group.number)


@dataclass(frozen=True, slots=True)
class Shortest:
    """Fewest entries under an `aligned` label; a group counts all its rows."""

    label: str

    def __call__(self, lot: Lot) -> tuple[float, ...]:
        return (length(lot, self.label),)


@dataclass(frozen=True, slots=True)
class MostUrgent:
    """Highest figure in a scalar column; a group has that of its most urgent row."""

    column: str

    def __call__(self, lot: Lot) -> tuple[float, ...]:
        return (-max(row.figures.get(self.column, 0.0) for row in members(lot)),)


def length(lot: Lot, label: str) -> int:
    """Entries under an `aligned` label, over all rows of a lot."""
    return sum(row.lengths.get(label, 0) for row in members(lot))


def members(lot: Lot) -> list[Row]:
    """All rows of a lot."""
    return [lot] if isinstance(lot, Row) else list(lot.rows.values())
