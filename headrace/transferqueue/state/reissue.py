"""What becomes of rows whose cells are gone with the node that held them.

A row that a task can write again goes back to that task, and whatever was made from the lost cells goes with
them; a task that needs whole groups loses its lease on the others of the group as well. A row that lost what
its producer put is dropped: nobody here can make it again. Rows that a step has consumed are done with.
"""

from collections.abc import Callable
from itertools import chain

from headrace.transferqueue.state.records import Block, Row
from headrace.transferqueue.state.rewind import checkpointed
from headrace.transferqueue.state.table import Table


def lose(table: Table, is_lost: Callable[[Block], bool], reason: str) -> tuple[list[int], list[int]]:
    """Blocks are gone; returns the uids that are issued again and those that are dropped."""
    reissued, dropped = [], []
    _cover(table, is_lost)
    for row in list(table.shelf.rows.values()):
        columns = _lost(table, row, is_lost)
        if not columns or row.uid not in table.shelf.rows:
            continue
        if row.consumed:
            for flow in [flow for flow in table.flows.values() if not row.done & flow.bit]:
                table.finish_for(flow, [row])
        elif columns & ~_written_by_tasks(table):
            table.drop([row.uid], reason)
            dropped.append(row.uid)
        else:
            _reissue(table, row, columns, reason)
            reissued.append(row.uid)
    table.wake_all()
    return reissued, dropped


def _cover(table: Table, is_lost: Callable[[Block], bool]) -> None:
    """A trainer cannot go back to steps whose rows have lost cells."""
    rows = chain(table.shelf.rows.values(), table.history.kept())
    steps = [row.step for row in rows if row.consumed and any(is_lost(block) for block in row.blocks)]
    if steps and table.spec.train is not None:
        checkpointed(table, table.spec.train.name, max(steps) + 1)


def _written_by_tasks(table: Table) -> int:
    columns = 0
    for flow in table.flows.values():
        columns |= flow.writes
    return columns


def _lost(table: Table, row: Row, is_lost: Callable[[Block], bool]) -> int:
    """The columns that are gone, those written beside them, and all that tasks made from them."""
    columns = 0
    for block in row.blocks:
        columns |= block.columns if is_lost(block) else 0
    while True:
        more = columns
        for block in row.blocks:
            more |= block.columns if block.columns & columns else 0
        for flow in table.flows.values():
            if flow.writes & columns or (flow.task.kind != "train" and flow.reads & columns):
                more |= flow.writes
        if more == columns:
            return columns
        columns = more


def _reissue(table: Table, row: Row, columns: int, reason: str) -> None:
    flows = [flow for flow in table.flows.values() if (flow.reads | flow.writes) & columns]
    row.carry = None
    labels = {
        column.aligned
        for column in table.spec.columns
        if table.bits[column.name] & columns and column.aligned
    }
    table.shelf.unwrite(row, columns, labels)
    for flow in flows:
        for each in list(row.group.rows.values()) if flow.whole and row.leased & flow.bit else [row]:
            if each.leased & flow.bit:
                table.release(each.leases[flow.index].id, [each.uid], reason=reason, failed=False)
    for flow in flows:
        if flow.task.name in table.over:
            row.passed |= flow.bit
        elif row.done & flow.bit and flow.task.kind != "train":
            flow.reopen(row)
        flow.withdraw(row)
        flow.offer([row])
