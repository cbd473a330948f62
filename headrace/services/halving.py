"""What is done with many rows at once, though others may have taken some of them away meanwhile.

An act on all of them that fails is taken in halves, until the rows at fault are found and passed over.
"""

from collections.abc import Awaitable, Callable

import numpy as np

from headrace.transferqueue import RowsGone, RowsLost

Act = Callable[[np.ndarray], Awaitable[None]]
"""Takes positions, int64 [n]; changes nothing where it raises."""


async def on_held(rows: int, act: Act) -> None:
    """Calls `act` with positions from 0 to `rows` of a lease; those of rows that are gone are passed over."""
    await passing_over((RowsLost, RowsGone), rows, act)


async def passing_over(errors: tuple[type[Exception], ...], rows: int, act: Act) -> int:
    """Calls `act` with positions from 0 to `rows`; returns how many raise one of `errors` by themselves."""
    return await _halved(errors, np.arange(rows), act)


async def _halved(errors: tuple[type[Exception], ...], index: np.ndarray, act: Act) -> int:
    try:
        await act(index)
    except errors:
        if len(index) <= 1:
            return len(index)
        return sum([await _halved(errors, half, act) for half in np.array_split(index, 2)])
    return 0
