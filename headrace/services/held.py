"""What is done with rows under a lease while others may drop some of them from the table."""

from collections.abc import Awaitable, Callable

import numpy as np

from headrace.transferqueue import RowsGone, RowsLost


async def on_held(rows: int, act: Callable[[np.ndarray], Awaitable[None]]) -> None:
    """Calls `act` with positions from 0 to `rows`; those of rows that are gone are passed over.

    `act` changes nothing where it raises RowsLost or RowsGone; positions are then halved until those are
    found.
    """
    await _halved(np.arange(rows), act)


async def _halved(index: np.ndarray, act: Callable[[np.ndarray], Awaitable[None]]) -> None:
    try:
        await act(index)
    except (RowsLost, RowsGone):
        for half in np.array_split(index, 2) if len(index) > 1 else ():
            await _halved(half, act)
