"""What the loss of a group of one table means for the row of another that it came from.

Invariant: no row waits for a column that a lost group owed it. The last row of a group that is dropped or
quarantined takes the parent row with it where a task still has to read such a column. A parent that leaves
takes no group with it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.transferqueue.state.records import Group, Row
    from headrace.transferqueue.state.table import Table


def lose_parent(table: "Table", group: "Group", reason: str) -> None:
    """A row of the group left unfinished for that reason; nothing follows while others of it are there."""
    origin, parent = table.spec.origin, table.parent
    if origin is None or parent is None or group.rows:
        return
    row = parent.shelf.rows.get(origin.uid_of(group.number))
    if row is not None and not row.consumed and _is_owed(parent, row, by=table):
        parent.drop([row.uid], f"its group in {table.spec.name!r} was lost: {reason}")


def _is_owed(parent: "Table", row: "Row", *, by: "Table") -> bool:
    """Whether some task still has to read a column of the row that comes from `by`, and is not there."""
    read = written = 0
    for flow in parent.flows.values():
        written |= flow.writes
        read |= 0 if row.done & flow.bit else flow.reads
    lacking = read & ~written & ~row.written
    owed = parent.spec.owed
    return any(lacking & bit and owed.get(name) in (None, *by.flows) for name, bit in parent.bits.items())
