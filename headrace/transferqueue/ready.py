"""Which lot a task leases next: one queue per task, kept as rows become ready, never scanned.

A lot is what is leased at once, a row or a whole group. Queues are heaps with lazy deletion: an entry
counts only while its lot is ready, so a lot that comes back is pushed again and old entries fall out.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from headrace.transferqueue.records import Group, Row
from headrace.transferqueue.staleness import Window

Lot = Row | Group
IsReady = Callable[[Lot], bool]


class ReadyQueue(Protocol):
    """The order of one task's ready lots."""

    def push(self, lot: Lot) -> None:
        """A lot has become ready."""
        ...

    def head(self, version: int) -> Lot | None:
        """The lot to lease next to a replica at `version`; None: none may be leased now."""
        ...


class Fifo:
    """Oldest first; what came back stands before what is newer."""

    def __init__(self, is_ready: IsReady) -> None:
        self._is_ready = is_ready
        self._heap: list[tuple[int, Lot]] = []

    def push(self, lot: Lot) -> None:
        heappush(self._heap, (lot.serial, lot))

    def head(self, version: int) -> Lot | None:
        while self._heap:
            lot = self._heap[0][1]
            if self._is_ready(lot):
                return lot
            heappop(self._heap)
        return None


class Gated:
    """Begin tasks: rows of begun units to replicas not behind them, new units as the gate allows."""

    def __init__(self, is_ready: IsReady, window: Window) -> None:
        self._is_ready = is_ready
        self._window = window
        self._begun: list[tuple[int, int, Lot]] = []
        self._fresh: list[tuple[int, Lot]] = []

    def push(self, lot: Lot) -> None:
        unit = lot.unit
        assert unit is not None
        if unit.begun:
            heappush(self._begun, (unit.version, lot.serial, lot))
        else:
            heappush(self._fresh, (lot.serial, lot))

    def head(self, version: int) -> Lot | None:
        while self._begun:
            least, _, lot = self._begun[0]
            if self._is_ready(lot):
                if least <= version:
                    return lot
                break
            heappop(self._begun)
        while self._fresh:
            lot = self._fresh[0][1]
            if self._is_ready(lot) and lot.unit is not None and not lot.unit.begun:
                return lot if self._window.may_begin(version) else None
            heappop(self._fresh)
        return None


class EarliestDeadline:
    """Train tasks: the unit due first, then the lowest group, as the take rule allows.

    If the rule holds back the unit due first it holds back all: a later one frees places no earlier.
    """

    def __init__(self, is_ready: IsReady, window: Window) -> None:
        self._is_ready = is_ready
        self._window = window
        self._heap: list[tuple[float, int, int, Lot]] = []

    def push(self, lot: Lot) -> None:
        unit = lot.unit
        assert unit is not None
        number = lot.number if isinstance(lot, Group) else lot.group.number
        heappush(self._heap, (unit.deadline, number, lot.serial, lot))

    def head(self, version: int) -> Lot | None:
        while self._heap:
            lot = self._heap[0][-1]
            if self._is_ready(lot):
                return lot if lot.unit is not None and self._window.may_take(lot.unit.deadline) else None
            heappop(self._heap)
        return None
