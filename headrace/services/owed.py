"""Columns that work on one table owes to rows of another, put there without a lease.

What is written first stands: work that is done again, after a lease that was lost, may come out otherwise.
"""

from collections.abc import Mapping

import numpy as np

from headrace.services.halving import passing_over
from headrace.transferqueue import Client, RowsGone, WriteConflict


async def give(client: Client, table: str, uids: np.ndarray, columns: Mapping[str, np.ndarray]) -> int:
    """Writes one value per uid (int64 [n]) and column; returns the rows that were passed over.

    Those are rows that have left the table, and rows that have another value already.
    """

    async def put(index: np.ndarray) -> None:
        await client.put(table, uids[index], {name: values[index] for name, values in columns.items()})

    return await passing_over((RowsGone, WriteConflict), len(uids), put)
