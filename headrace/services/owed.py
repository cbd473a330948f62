"""Columns that work on one table owes to rows of another, put there without a lease.

What is written first stands: work that is done again, after a lease that was lost, may come out otherwise.
"""

from collections.abc import Mapping

import numpy as np

from headrace.transferqueue import Client, RowsGone, WriteConflict


async def give(client: Client, table: str, uids: np.ndarray, columns: Mapping[str, np.ndarray]) -> int:
    """Writes one value per uid (int64 [n]) and column; returns the rows that were passed over.

    Those are rows that have left the table, and rows that have another value already.
    """
    try:
        await client.put(table, uids, columns)
    except (RowsGone, WriteConflict):
        if len(uids) == 1:
            return 1
        halves = np.array_split(np.arange(len(uids)), 2)
        return sum(
            [
                await give(client, table, uids[half], {name: each[half] for name, each in columns.items()})
                for half in halves
            ]
        )
    return 0
