"""Where cells are, as clients are told: blocks, and which rows of an answer have which places in them."""

from itertools import groupby
from operator import attrgetter
from typing import Any

from headrace.transferqueue.link.wire import pack_ints
from headrace.transferqueue.server.hub import Hub
from headrace.transferqueue.server.nodes import addresses
from headrace.transferqueue.state.records import Block, Held, Row
from headrace.transferqueue.state.table import Table

ALL_COLUMNS = -1
"""Bits of every column."""


def lease_body(hub: Hub, table: Table, held: Held) -> dict[str, Any]:
    """What a holder is told of its lease: the rows, and where the columns are that its task reads."""
    rows = list(held.rows.values())
    reads = sum({table.bits[name] for name in table.spec.tasks[held.task].reads})
    blocks = places(rows, reads)
    again = table.spec.tasks[held.task].kind == "train" and table.history.is_again(table.ledger.step)
    return {
        **({"again": True} if again else {}),
        "lease": held.id,
        "table": table.spec.name,
        "lease_s": table.spec.lease_s,
        "uids": pack_ints([row.uid for row in rows]),
        "groups": pack_ints([row.group.number for row in rows]),
        "attempts": pack_ints([row.failures.get(held.task, 0) + 1 if row.failures else 1 for row in rows]),
        "versions": pack_ints([row.version for row in rows]),
        "carries": {index: row.carry for index, row in enumerate(rows) if row.carry is not None},
        "blocks": blocks,
        "units": addresses(hub, blocks),
    }


def places(rows: list[Row], columns: int) -> list[list[Any]]:
    """Where the cells are: per block its reference, positions in `rows` and indices in the block."""
    places: dict[Block, tuple[list[int], list[int]]] = {}
    end = 0
    for blocks, run in groupby(rows, key=attrgetter("blocks")):
        members = list(run)
        start, end = end, end + len(members)
        for at, block in enumerate(blocks):
            if block.columns & columns:
                positions, indices = places.setdefault(block, ([], []))
                positions.extend(range(start, end))
                indices.extend([row.indices[at] for row in members])
    return [
        [
            *(block.segment, block.offset, block.length, pack_ints(positions), pack_ints(indices)),
            *(block.checksum, block.node),
        ]
        for block, (positions, indices) in places.items()
    ]
