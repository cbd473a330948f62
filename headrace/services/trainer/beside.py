"""Work that goes on while other work does, whose failure ends both."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def beside(work: Awaitable[T], *going: "asyncio.Task[None] | None") -> T:
    """What `work` gives, which may wait for what is `going`. Raises what kept one of these from its end."""
    task, left = asyncio.ensure_future(work), {each for each in going if each is not None}
    try:
        while left and not task.done():
            await asyncio.wait({task, *left}, return_when=asyncio.FIRST_COMPLETED)
            for each in [each for each in left if each.done()]:
                left.remove(each)
                each.result()
        return await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
