"""A drill: cells on disk that are not as they were written, as a failing disk would leave them."""

from collections.abc import Iterable
from pathlib import Path

from headrace.transferqueue.errors import UnknownName
from headrace.transferqueue.state.records import Block, Row
from headrace.transferqueue.state.table import Table


def newest_unread(tables: Iterable[Table]) -> Block:
    """The newest cells beside the controller that a task wrote, and that another has yet to read. Raises
    UnknownName where there are none."""
    found = [
        row
        for table in tables
        for row in table.shelf.rows.values()
        if len(row.blocks) > 1 and not row.blocks[-1].node and _is_unread(table, row)
    ]
    if not found:
        raise UnknownName("no cells that a task wrote wait to be read, to be damaged; ask again")
    return max(found, key=lambda row: len(row.blocks)).blocks[-1]


def _is_unread(table: Table, row: Row) -> bool:
    """Whether a task that neither has the row nor is done with it reads its newest cells."""
    taken, columns = row.done | row.leased, row.blocks[-1].columns
    return any(flow.reads & columns and not taken & flow.bit for flow in table.flows.values())


def turn_over(directory: Path, block: Block) -> None:
    """A byte in the middle of a block."""
    with (directory / block.segment).open("r+b") as file:
        file.seek(block.offset + block.length // 2)
        (byte,) = file.read(1)
        file.seek(block.offset + block.length // 2)
        file.write(bytes([byte ^ 0xFF]))
