"""The leases on one table's rows and when they end.

Invariant: a lease that is held has rows; one that has lost its last row is gone.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, heapreplace

from headrace.transferqueue.errors import LeaseLost, RowsLost
from headrace.transferqueue.state.records import Held, Row


class LeaseIds:
    """Numbers of leases, unique over the tables of a queue; one is used up only by a lease that is held."""

    def __init__(self) -> None:
        self._last = 0

    def __iter__(self) -> "LeaseIds":
        return self

    def __next__(self) -> int:
        self._last += 1
        return self._last


class Leases:
    """Leases by id, and their deadlines."""

    def __init__(self, ids: Iterator[int], lease_s: float) -> None:
        self._ids = ids
        self._lease_s = lease_s
        self._held: dict[int, Held] = {}
        self._deadlines: list[tuple[float, int]] = []

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def draft(self, now: float, task: int, holder: str) -> Held:
        """A lease without rows and number, to be filled and then held."""
        return Held(id=0, task=task, holder=holder, deadline_s=now + self._lease_s)

    def hold(self, held: Held) -> None:
        held.id = next(self._ids)
        self._held[held.id] = held
        heappush(self._deadlines, (held.deadline_s, held.id))

    def holds(self, lease: int) -> bool:
        return lease in self._held

    def get(self, lease: int) -> Held:
        """LeaseLost when it has ended."""
        held = self._held.get(lease)
        if held is None:
            raise LeaseLost(
                f"lease {lease} has ended: it expired, was evicted or has no rows left; nothing was changed"
            )
        return held

    def rows(self, held: Held, uids: Iterable[int] | None) -> list[Row]:
        """The rows of a lease, or those named, each once; RowsLost where it does not hold one."""
        if uids is None:
            return list(held.rows.values())
        uids = list(dict.fromkeys(uids))
        try:
            return [held.rows[uid] for uid in uids]
        except KeyError:
            missing = [uid for uid in uids if uid not in held.rows]
            raise RowsLost(f"lease {held.id} does not hold rows {missing[:8]}; nothing was changed") from None

    def renew(self, now: float, lease: int) -> bool:
        """Moves a deadline; False: the lease has ended."""
        held = self._held.get(lease)
        if held is not None:
            held.deadline_s = now + self._lease_s
        return held is not None

    def renew_all(self, now: float) -> None:
        """Every holder has the full time again, whatever the clock said before."""
        for held in self._held.values():
            held.deadline_s = now + self._lease_s
        self._deadlines = [(held.deadline_s, held.id) for held in self._held.values()]

    def close_if_empty(self, held: Held) -> None:
        if not held.rows:
            self._held.pop(held.id, None)

    def next_deadline(self) -> float | None:
        """When the next lease ends if nobody renews it; None: none is held."""
        while self._deadlines:
            due, lease = self._deadlines[0]
            held = self._held.get(lease)
            if held is None:
                heappop(self._deadlines)
            elif held.deadline_s > due:
                heapreplace(self._deadlines, (held.deadline_s, lease))
            else:
                return due
        return None

    def late(self, now: float) -> list[Held]:
        """Leases whose deadline has passed."""
        due = self.next_deadline()
        if due is None or due > now:
            return []
        return [held for held in self._held.values() if held.deadline_s <= now]

    def of(self, holder: str) -> list[Held]:
        return [held for held in self._held.values() if held.holder == holder]
