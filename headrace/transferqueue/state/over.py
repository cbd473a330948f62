"""Tasks that will do nothing more, while others go on with the rows of their table.

    of kind train:          live ─► finish ─► over ─► rewind ─► live
    of kind work or begin:  live ─► finish ─► over ─► reopen ─► live

Functions over a table, as events are. Invariant: a task that is over is done with every row, those that are
yet to come included, so that rows leave once all other tasks are done with them. Where it is the train task
no unit counts either: the gate is open.

A task that is live again has before it what it passed over and is still in the table, but for rows that can
never be whole for it: units that could not be consumed in time stay done for a train task, so that the bound
holds for whatever it takes; rows that lack a column which a task of another table owes them are dropped where
their reader or that task was over, since the groups that it would have come from may be gone.
"""

from typing import TYPE_CHECKING

from headrace.transferqueue.errors import Refused

if TYPE_CHECKING:
    from headrace.transferqueue.state.flow import Flow
    from headrace.transferqueue.state.records import Row
    from headrace.transferqueue.state.staleness import Window
    from headrace.transferqueue.state.table import Table


def finish(table: "Table", task: str) -> list[int]:
    """The task takes no further row; returns the leases that end. Again it changes nothing."""
    if task in table.over:
        return []
    flow = table.over[task] = table.flows[task]
    leases = [held.id for held in table.leases if held.task == flow.index]
    rows = [row for row in table.shelf.rows.values() if not row.done & flow.bit]
    if flow.task.kind == "train":
        _open_gate(table, rows)
    for row in rows:
        row.passed |= flow.bit
    table.finish_for(flow, rows)
    if flow.task.kind == "train":
        _sort_anew(table)
    table.wake_all()
    return leases


def reopen(table: "Table", task: str) -> None:
    """A work or begin task goes on, with the rows that it passed over; nothing changes where it is not
    over."""
    flow = table.flows[task]
    if flow.task.kind == "train":
        raise Refused(f"task {task!r} is of kind train; it goes on by `rewind` to the step that it is at")
    if table.over.pop(task, None) is None:
        return
    passed = [row for row in table.shelf.rows.values() if row.passed & flow.bit]
    owed = flow.reads & ~_written_here(table)
    _drop(table, [row for row in passed if owed & ~row.written], task)
    if table.parent is not None:
        _drop(table.parent, _owed_by(table.parent, task), task)
    again = [row for row in passed if not owed & ~row.written]
    for row in again:
        flow.reopen(row)
    flow.offer(again)
    table.wake_all()


def revive(table: "Table") -> None:
    """The train task goes on, at the step that is due; nothing changes where it is not over."""
    flow = next((flow for flow in table.over.values() if flow.task.kind == "train"), None)
    if flow is None:
        return
    del table.over[flow.task.name]
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
    table.wake_all()


def _open_gate(table: "Table", rows: "list[Row]") -> None:
    table.history.fork(table.ledger.step)
    for row in rows:
        row.unit.uncount()
    if table.window is not None:
        table.window.open()


def _written_here(table: "Table") -> int:
    columns = 0
    for flow in table.flows.values():
        columns |= flow.writes
    return columns


def _owed_by(table: "Table", task: str) -> "list[Row]":
    """Rows that lack what a task of another table owes them."""
    columns = sum(table.bits[column] for column, owner in table.spec.owed.items() if owner == task)
    return [row for row in table.shelf.rows.values() if columns & ~row.written]


def _drop(table: "Table", rows: "list[Row]", task: str) -> None:
    table.drop([row.uid for row in rows if not row.consumed], f"passed over while task {task!r} was over")


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
