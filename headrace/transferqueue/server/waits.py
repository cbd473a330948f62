"""Requests that cannot be answered yet, in the order in which they came.

Invariant: a wait is under exactly one key, has a deadline, and leaves when answered or cancelled; only the
waits under a key that an event touched are looked at again.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


@dataclass(slots=True, kw_only=True, eq=False)
class Wait:
    """One request that waits."""

    key: Hashable
    asker: tuple[bytes, int]
    """Client and request id, to answer and to cancel by."""
    since_s: float
    deadline_s: float
    why: Callable[[], str]
    """What is missing and who owes it, as things are now."""
    attempt: Callable[[], bool]
    """Tries again; True: it has been answered, well or with an error."""
    give_up: Callable[[], None]
    """Answers that the deadline has passed."""
    abandon: Callable[[], None]
    """Frees what it held; called when it ends without success."""
    runs_on: bool = False
    """Whether its time runs while the queue stands."""


class Waits:
    """All waits of a controller."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[tuple[bytes, int], Wait]] = {}
        self._by_asker: dict[tuple[bytes, int], Wait] = {}
        self._deadlines: dict[bool, list[tuple[float, int, Wait]]] = {False: [], True: []}
        """Heaps, by `runs_on`."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._by_asker)

    def __contains__(self, asker: tuple[bytes, int]) -> bool:
        return asker in self._by_asker

    def add(self, wait: Wait) -> None:
        self._by_key.setdefault(wait.key, {})[wait.asker] = wait
        self._by_asker[wait.asker] = wait
        self._count += 1
        deadlines = self._deadlines[wait.runs_on]
        if len(deadlines) > 2 * len(self._by_asker) + 64:
            deadlines[:] = [due for due in deadlines if self._is_current(due[2])]
            heapify(deadlines)
        heappush(deadlines, (wait.deadline_s, self._count, wait))

    def __iter__(self) -> Iterator[Wait]:
        return iter(self._by_asker.values())

    def under(self, key: Hashable) -> Iterator[Wait]:
        """The waits of a key, oldest first; answered ones may be removed on the way."""
        yield from list(self._by_key.get(key, {}).values())

    def has(self, key: Hashable) -> bool:
        return key in self._by_key

    def has_asker(self, client: bytes) -> bool:
        """Whether a client waits for something."""
        return any(asker[0] == client for asker in self._by_asker)

    def remove(self, asker: tuple[bytes, int]) -> None:
        """It has been answered."""
        wait = self._by_asker.pop(asker, None)
        if wait is not None:
            waits = self._by_key[wait.key]
            del waits[asker]
            if not waits:
                del self._by_key[wait.key]

    def cancel(self, asker: tuple[bytes, int]) -> None:
        """Nobody waits for the answer any more."""
        wait = self._by_asker.get(asker)
        self.remove(asker)
        if wait is not None:
            wait.abandon()

    def cancel_client(self, client: bytes) -> None:
        for asker in [asker for asker in self._by_asker if asker[0] == client]:
            self.cancel(asker)

    def postpone(self, since_s: float, now: float) -> None:
        """From `since_s` to `now` the queue stood."""
        stood = [wait for wait in self._by_asker.values() if not wait.runs_on]
        for wait in stood:
            wait.deadline_s += now - max(since_s, wait.since_s)
        self._deadlines[False] = [(wait.deadline_s, number, wait) for number, wait in enumerate(stood)]
        heapify(self._deadlines[False])

    def next_deadline(self, *, stands: bool = False) -> float | None:
        """Of the waits whose time runs now, where the queue `stands` or does not."""
        heads = (self._head(deadlines) for deadlines in self._running(stands))
        return min((due for due in heads if due is not None), default=None)

    def late(self, now: float, *, stands: bool = False) -> list[Wait]:
        """Removes and returns the waits whose deadline has passed."""
        late = []
        for deadlines in self._running(stands):
            while (due := self._head(deadlines)) is not None and due <= now:
                wait = heappop(deadlines)[2]
                self.remove(wait.asker)
                late.append(wait)
        return late

    def _running(self, stands: bool) -> list[list[tuple[float, int, Wait]]]:
        return [self._deadlines[True]] if stands else [self._deadlines[False], self._deadlines[True]]

    def _head(self, deadlines: list[tuple[float, int, Wait]]) -> float | None:
        while deadlines and not self._is_current(deadlines[0][2]):
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def _is_current(self, wait: Wait) -> bool:
        return self._by_asker.get(wait.asker) is wait
