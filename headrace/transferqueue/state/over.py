"""A train task that has taken its last step, while others go on with the rows of its table.

    live ─► finish ─► over ─► rewind ─► live

Functions over a table, as events are. Invariant: while the task is over it is done with every row, those that
are yet to come included, and no unit counts: the gate is open and rows leave once all other tasks are done
with them. Units that are there when it is live again count anew, unless they could not be consumed in time:
those stay done for it, so that the bound holds for whatever it takes.
"""

from typing import TYPE_CHECKING

from headrace.transferqueue.state.checks import require_train

if TYPE_CHECKING:
    from headrace.transferqueue.state.flow import Flow
    from headrace.transferqueue.state.records import Row
    from headrace.transferqueue.state.staleness import Window
    from headrace.transferqueue.state.table import Table


def finish(table: "Table", task: str) -> list[int]:
    """The trainer commits no further step; returns the leases that end. Again it changes nothing."""
    flow = require_train(table.flows[task])
    if table.over is flow:
        return []
    leases = [held.id for held in table.leases if held.task == flow.index]
    table.over = flow
    table.history.fork(table.ledger.step)
    rows = [row for row in table.shelf.rows.values() if not row.done & flow.bit]
    for row in rows:
        row.unit.uncount()
    if table.window is not None:
        table.window.open()
    table.finish_for(flow, rows)
    _sort_anew(table)
    return leases


def revive(table: "Table") -> None:
    """The train task goes on, at the step that is due; nothing changes where it is not over."""
    flow, table.over = table.over, None
    if flow is None:
        return
    units: dict[int, list[Row]] = {}
    for row in table.shelf.rows.values():
        if not row.consumed:
            units.setdefault(id(row.unit), []).append(row)
    lots = list(units.values())
    for rows in lots:
        rows[0].unit.rows = len(rows)
    if table.window is not None:
        table.window.close()
        lots = _counted(table.window, lots)
    again = [row for rows in lots for row in rows]
    for row in again:
        flow.reopen(row)
    flow.offer(again)
    _sort_anew(table)


def _counted(window: "Window", lots: "list[list[Row]]") -> "list[list[Row]]":
    """The units, as their rows, that nobody has begun, or that can still be consumed in time."""
    fresh = [rows for rows in lots if _version(rows) < 0]
    begun = sorted((rows for rows in lots if _version(rows) >= 0), key=_version)
    counted = []
    for rows in begun:
        unit, version = rows[0].unit, _version(rows)
        if window.admit(version + window.slack):
            unit.version, unit.slack, unit.deadline = version, window.slack, version + window.slack
            counted.append(rows)
    return fresh + counted


def _version(rows: "list[Row]") -> int:
    """Behaviour version of a unit: the least of its rows'; -1: none was begun."""
    return min((row.version for row in rows if row.version >= 0), default=-1)


def _sort_anew(table: "Table") -> None:
    gated: list[Flow] = [flow for flow in table.flows.values() if flow.task.kind != "work"]
    for flow in gated:
        flow.sort_anew(table.shelf.rows.values())
    table.wake_all()
