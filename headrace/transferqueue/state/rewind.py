"""Going back to a checkpoint, and what becomes of rows that a new history has overtaken.

Functions over a table, as events are: each raises having changed nothing, or changes the table whole.
"""

from headrace.transferqueue.errors import Refused, StepRefused
from headrace.transferqueue.state.checks import require_train
from headrace.transferqueue.state.flow import Flow
from headrace.transferqueue.state.over import revive
from headrace.transferqueue.state.records import Row
from headrace.transferqueue.state.table import Table


def checkpointed(table: Table, task: str, step: int) -> None:
    """A checkpoint holds everything up to the version `step`: rows of earlier steps may go."""
    require_train(table.flows[task])
    if step > table.ledger.step:
        raise StepRefused(f"a checkpoint at step {step} is ahead of the queue; {table.ledger.step} is due")
    for row in table.history.cover(step):
        if row.kept:
            table.shelf.forget(row)


def rewind(table: Table, task: str, step: int) -> None:
    """The trainer is back at `step`: later steps' rows are handed out again, batch by batch, in order.

    Steps that are still covered by `history` may be named, and the one that is due, which changes nothing
    but the task's leases: they end, since whoever held them is gone. A task that was over is live again.
    """
    flow = require_train(table.flows[task])
    if not table.history.covered <= step <= table.ledger.step:
        raise StepRefused(
            f"task {task!r} cannot go back to step {step}: steps {table.history.covered} to "
            f"{table.ledger.step} can be gone back to; earlier rows went with a checkpoint, and later "
            "ones were lost with the queue's newest operations; begin a new queue"
        )
    if step < table.ledger.step and not table.spec.rewindable:
        raise Refused(f"table {table.spec.name!r} is not rewindable, so its committed rows are gone")
    for held in [held for held in table.leases if held.task == flow.index]:
        table.release(held.id, None, reason=f"task {task!r} went back to step {step}", failed=False)
    revive(table)
    for each in range(table.ledger.step - 1, step - 1, -1):
        _undo(table, flow, each)
    table.wake_all()


def fork(table: Table, version: int) -> list[int]:
    """Version `version` came out other than before: rows with a part of the lost history are dropped.

    Returns their uids. Rows that were begun earlier stay, without what they carried; rollouts that are out
    are called back, since their replicas may hold lost weights.
    """
    for flow in [flow for flow in table.flows.values() if flow.task.kind == "begin"]:
        for held in [held for held in table.leases if held.task == flow.index]:
            table.release(held.id, None, reason=f"a new timeline began at version {version}", failed=False)
    lost = [row for row in table.shelf.rows.values() if row.step < 0 and _is_lost(row, version)]
    table.drop([row.uid for row in lost], f"timeline: made by a lost version, {version} or later")
    for row in table.shelf.rows.values():
        row.carry = None
    table.history.fork(version)
    table.newest_version = version
    table.wake_all()
    return [row.uid for row in lost]


def _is_lost(row: Row, version: int) -> bool:
    return max(row.newest, row.version, row.unit.version) >= version


def _undo(table: Table, flow: Flow, step: int) -> None:
    """Takes back one commit, the newest."""
    rows = table.history.undo(step)
    table.ledger.undo(step, rows, length_label=table.length_label)
    units = {id(row.unit): row.unit for row in rows}
    for row in rows:
        row.unit.rows += 1
        if row.kept:
            table.shelf.restore(row)
        else:
            table.shelf.consumed -= 1
        row.step = -1
        flow.reopen(row)
    if table.window is not None:
        table.window.undo([unit.deadline for unit in units.values() if unit.begun])
    flow.offer(rows)
