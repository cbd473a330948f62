"""Rows whose cells are on a node that is away: parked, so that nobody is handed what cannot be read.

Functions over a table, as events are. A row is parked for the tasks that read the cells in question, and for
these alone; a lease that is held stands. When the node is back its rows are offered again, with no attempt
spent.
"""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from headrace.transferqueue.state.records import Row

if TYPE_CHECKING:
    from headrace.transferqueue.state.flow import Flow
    from headrace.transferqueue.state.table import Table


def park(table: "Table", node: str) -> None:
    """The node is away: what needs its cells waits."""
    table.away.add(node)
    for row in chain(table.shelf.rows.values(), table.history.kept()):
        if any(block.node == node for block in row.blocks):
            _hold_back(table, row)
    table.wake_all()


def unpark(table: "Table", node: str) -> None:
    """The node is back, or its cells are gone for good and about to be taken out."""
    table.away.discard(node)
    for row in chain(table.shelf.rows.values(), table.history.kept()):
        if row.parked:
            row.parked = 0
            _hold_back(table, row)
            for flow in [] if row.kept else table.flows.values():
                flow.offer([row])
    table.wake_all()


def park_written(rows: Iterable[Row], flows: Iterable["Flow"], columns: int) -> None:
    """Cells in `columns` were just written on a node that is away."""
    bits = sum(flow.bit for flow in flows if flow.reads & columns)
    for row in rows:
        row.parked |= bits


def parked_rows(table: "Table") -> dict[str, int]:
    """Rows in the table that some task has still to read, by the node that they wait for."""
    counts = dict.fromkeys(sorted(table.away), 0)
    for row in table.shelf.rows.values() if counts else ():
        if row.parked & ~row.done:
            for node in {block.node for block in row.blocks} & counts.keys():
                counts[node] += 1
    return counts


def parked_for(table: "Table", flow: "Flow") -> int:
    """Rows that one task is not offered."""
    rows = table.shelf.rows.values() if table.away else ()
    return sum(1 for row in rows if row.parked & ~(row.leased | row.done) & flow.bit)


def _hold_back(table: "Table", row: Row) -> None:
    away = 0
    for block in row.blocks:
        away |= block.columns if block.node in table.away else 0
    for flow in table.flows.values():
        if flow.reads & away:
            row.parked |= flow.bit
            flow.withdraw(row)
