"""Hears of answers: leases whole groups as soon as they are scored, and acknowledges them once they are kept.

A task of its own in the source's table, beside the trainer's: rows are read, never held: it delays nothing.
"""

from collections.abc import Awaitable, Callable

import numpy as np

from headrace.services.base import Context
from headrace.transferqueue import EndOfData, LeaseLost, WaitTimeout

READS = ("reward",)
"""Columns that feedback is made of."""
MAX_ROWS_PER_LEASE = 4096

Hear = Callable[[np.ndarray, np.ndarray], Awaitable[None]]
"""Takes the groups of rows, int64 [B], and their rewards, float64 [B], NaN where invalid; keeps them."""


def task_name(source: str) -> str:
    """The task by which the node `source` hears; no node can have the name."""
    return f"{source}.feedback"


async def listen(context: Context, hear: Hear) -> None:
    """Returns when every row has been heard and the table has ended; until then it goes on."""
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
        await hear(lease.rows.groups, np.array(lease.rows["reward"], dtype=np.float64))
        try:
            await context.client.ack(lease)
        except LeaseLost as lost:
            context.report.event("lease_lost", reason=str(lost))
