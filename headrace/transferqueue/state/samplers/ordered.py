"""Ready lots by a key: shortest, most urgent, oldest; within what the gate or the take rule allows.

Train tasks: lots due at one step stand in one heap, so that the best of those that the take rule allows is
found without looking at the others. Begin tasks: rows of begun units go first, to replicas not behind them,
and new units as the gate allows.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from headrace.transferqueue.state.samplers.base import Ask, Key, Lot, Setting, Stateless, deadline

Entry = tuple[tuple[float, ...], int, Lot]
"""Key, serial, lot: two entries with equal keys and serials hold the same lot."""


class Ordered(Stateless):
    """Least key first, then oldest; what came back stands where it stood."""

    def __init__(self, setting: Setting, key: Key) -> None:
        self._is_ready = setting.is_ready
        self._key = key
        self._heap: list[Entry] = []

    def push(self, lots: Sequence[Lot]) -> None:
        """See `Sampler.push`."""
        for lot in lots:
            heappush(self._heap, (self._key(lot), lot.serial, lot))

    def heads(self, ask: Ask, most: int) -> list[Lot]:
        """See `Sampler.heads`."""
        head = self.head()
        return [] if head is None else [head]

    def head(self) -> Lot | None:
        """The first of all that are ready."""
        while self._heap:
            lot = self._heap[0][2]
            if self._is_ready(lot):
                return lot
            heappop(self._heap)
        return None


class Taken(Stateless):
    """Train tasks of a gated table: least key first among what the take rule allows."""

    def __init__(self, setting: Setting, key: Key) -> None:
        assert setting.window is not None
        self._window = setting.window
        self._setting = setting
        self._key = key
        self._by_deadline: dict[float, Ordered] = {}

    def push(self, lots: Sequence[Lot]) -> None:
        """See `Sampler.push`."""
        for lot in lots:
            due = deadline(lot)
            if due not in self._by_deadline:
                self._by_deadline[due] = Ordered(self._setting, self._key)
            self._by_deadline[due].push([lot])

    def heads(self, ask: Ask, most: int) -> list[Lot]:
        """See `Sampler.heads`; one, since its place in the step is another's no more."""
        best: Entry | None = None
        for due, lots in sorted(self._by_deadline.items(), key=lambda item: item[0]):
            lot = lots.head()
            if lot is None:
                del self._by_deadline[due]
            elif not self._window.may_take(due):
                break
            elif best is None or (self._key(lot), lot.serial) < best[:2]:
                best = (self._key(lot), lot.serial, lot)
        return [] if best is None else [best[2]]


class Gated(Stateless):
    """Begin tasks of a gated table."""

    def __init__(self, setting: Setting, key: Key) -> None:
        assert setting.window is not None
        self._is_ready = setting.is_ready
        self._window = setting.window
        self._key = key
        self._begun: list[tuple[int, tuple[float, ...], int, Lot]] = []
        self._fresh: list[Entry] = []

    def push(self, lots: Sequence[Lot]) -> None:
        """See `Sampler.push`."""
        for lot in lots:
            unit = lot.unit
            assert unit is not None
            if unit.begun:
                heappush(self._begun, (unit.version, self._key(lot), lot.serial, lot))
            else:
                heappush(self._fresh, (self._key(lot), lot.serial, lot))

    def heads(self, ask: Ask, most: int) -> list[Lot]:
        """See `Sampler.heads`; one, since a unit that begins moves the gate."""
        while self._begun:
            least, lot = self._begun[0][0], self._begun[0][-1]
            if self._is_ready(lot):
                if least <= ask.version:
                    return [lot]
                break
            heappop(self._begun)
        while self._fresh:
            lot = self._fresh[0][2]
            if self._is_ready(lot) and lot.unit is not None and not lot.unit.begun:
                return [lot] if self._window.may_begin(ask.version) else []
            heappop(self._fresh)
        return []
