"""What lots are ordered by: the least key is leased first."""

from headrace.transferqueue.records import Group, Row
from headrace.transferqueue.samplers.base import Key, Lot, deadline


def oldest(lot: Lot) -> tuple[float, ...]:
    """The order in which rows were put."""
    return (lot.serial,)


def earliest_due(lot: Lot) -> tuple[float, ...]:
    """The unit due first; of those due together the lowest group."""
    return deadline(lot), (lot.number if isinstance(lot, Group) else lot.group.number)


def shortest(label: str) -> Key:
    """Fewest entries under an `aligned` label; a group counts all its rows."""
    return lambda lot: (length(lot, label),)


def most_urgent(column: str) -> Key:
    """Highest figure in a scalar column; a group has that of its most urgent row."""
    return lambda lot: (-max(row.figures.get(column, 0.0) for row in members(lot)),)


def length(lot: Lot, label: str) -> int:
    """Entries under an `aligned` label, over all rows of a lot."""
    return sum(row.lengths.get(label, 0) for row in members(lot))


def members(lot: Lot) -> list[Row]:
    """All rows of a lot."""
    return [lot] if isinstance(lot, Row) else list(lot.rows.values())
