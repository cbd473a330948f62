"""Hears of answers: leases whole groups as soon as they are scored, and acknowledges them once they are kept.

A task of its own in the source's table, beside the trainer's: rows are read, never held: it delays nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import numpy as np

from headrace.services.base import Context
from headrace.transferqueue import Client, EndOfData, Lease, LeaseLost, WaitTimeout

READS = ("reward",)
"""Columns that feedback is made of."""
MAX_ROWS_PER_LEASE = 4096

Hear = Callable[[np.ndarray, np.ndarray], Awaitable[None]]
"""Takes the groups of rows, int64 [B], and their rewards, float64 [B], NaN where invalid; keeps them."""


def task_name(source: str) -> str:
    """The task by which the node `source` hears; no node can have the name."""
    return f"{source}.feedback"


async def listen(context: Context, hear: Hear) -> None:
    """Returns when every row has been heard and the table has ended; until then it goes on.

    The next groups are asked for while those before are being taken in, so that a group is in hand before a
    filter of the trainer can drop it.
    """
    async with asyncio.TaskGroup() as taking_in:
        while True:
            try:
                lease = await context.client.lease(
                    task_name(context.node),
                    MAX_ROWS_PER_LEASE,
                    timeout_s=context.flow.no_progress_timeout_s,
                )
            except WaitTimeout:
                continue
            except EndOfData:
                return
            taking_in.create_task(_take_in(context.client, lease, hear))


async def _take_in(client: Client, lease: Lease, hear: Hear) -> None:
    """Rows that were dropped meanwhile were heard all the same; those of a late lease come once more."""
    await hear(lease.rows.groups, np.array(lease.rows["reward"], dtype=np.float64))
    with suppress(LeaseLost):
        await client.ack(lease)
