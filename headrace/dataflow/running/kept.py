"""The tasks that keep the replicas of a launch, of which more may come while they are waited for."""

import asyncio
from typing import Any

from headrace.services.host import Assignment


class Kept:
    """The tasks of a launch's replicas; there may come to be more."""

    def __init__(self) -> None:
        self.tasks: dict[asyncio.Task[None], Assignment] = {}
        self._grown = asyncio.Event()
        self._said: set[asyncio.Task[Any]] = set()

    def add(self, task: asyncio.Task[None], told: Assignment) -> None:
        self.tasks[task] = told
        self._grown.set()

    async def ended(self, *others: asyncio.Task[Any]) -> set[asyncio.Task[Any]]:
        """Waits for the next of these, or of `others`, to end; each is given once. None where more came."""
        grown = asyncio.create_task(self._grown.wait())
        watched = {*self.tasks, *others} - self._said
        try:
            done, _ = await asyncio.wait({*watched, grown}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            grown.cancel()
        self._grown.clear()
        self._said |= done
        return done - {grown}
