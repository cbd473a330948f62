"""What one `generate` call waits for: groups come out whole, several at once if the consumer is slow."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from headrace.services.rollout.engines.base import Carry, Completion, Request


class Ticket:
    """Completions of one call, handed over by group; used within the event loop only."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._missing = Counter(request.group for request in requests)
        self._partial: dict[int, list[Completion]] = {group: [] for group in self._missing}
        self._ready: list[Completion] = []
        self._changed = asyncio.Event()
        self._error: BaseException | None = None

    def is_complete(self) -> bool:
        """Whether every completion has been put."""
        return not self._missing

    def not_taken(self) -> dict[int, Carry]:
        """Completions that were put and wait for their group, or for a `take`; by uid."""
        waiting = [*self._ready, *(each for group in self._partial.values() for each in group)]
        return {completion.uid: completion.carry() for completion in waiting}

    def put(self, group: int, completion: Completion) -> None:
        self._partial[group].append(completion)
        self._missing[group] -= 1
        if not self._missing[group]:
            del self._missing[group]
            self._ready.extend(self._partial.pop(group))
            self._changed.set()

    def fail(self, error: BaseException) -> None:
        """Makes the waiting `take`, and all later ones, raise `error`."""
        self._error = error
        self._changed.set()

    async def take(self) -> list[Completion]:
        """Waits for whole groups and takes all there are; empty once every completion was taken."""
        while not self._ready and self._missing and self._error is None:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        ready, self._ready = self._ready, []
        return ready
