"""Ready lots in the order in which they were put: first come, first served.

Nearly every lot becomes ready after those that were put before it, so a queue is all it takes; the few that
come late or come back wait in a heap beside it.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice

from headrace.transferqueue.state.samplers.base import Ask, Lot, Setting, Stateless


class Arrivals(Stateless):
    """Lowest serial first; what came back stands where it stood."""

    def __init__(self, setting: Setting) -> None:
        self._is_ready = setting.is_ready
        self._queue: deque[Lot] = deque()
        self._late: list[tuple[int, Lot]] = []

    def push(self, lots: Sequence[Lot]) -> None:
        """See `Sampler.push`."""
        newest = self._queue[-1].serial if self._queue else -1
        for lot in lots:
            if lot.serial > newest:
                newest = lot.serial
                self._queue.append(lot)
            else:
                heappush(self._late, (lot.serial, lot))

    def heads(self, ask: Ask, most: int) -> list[Lot]:
        """See `Sampler.heads`."""
        queue, late = self._queue, self._late
        while queue and not self._is_ready(queue[0]):
            queue.popleft()
        while late and not self._is_ready(late[0][1]):
            heappop(late)
        if late:
            first = not queue or late[0][0] <= queue[0].serial
            return [late[0][1] if first else queue[0]]
        return list(filter(self._is_ready, islice(queue, most)))

    def taken(self, lots: Sequence[Lot], ask: Ask) -> None:
        """See `Sampler.taken`."""
        for lot in lots:
            if self._queue and self._queue[0] is lot:
                self._queue.popleft()
