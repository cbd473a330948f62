"""Lots dealt to data-parallel ranks, so that each gets as many lots as the others and about as many tokens.

As soon as one lot per rank is ready they are dealt: the longest to the rank with the fewest tokens so far.
Invariant: between two deals all ranks have been given the same count of lots.
"""

from collections.abc import Sequence
from typing import Any

from headrace.transferqueue.state.records import Row
from headrace.transferqueue.state.samplers.base import Ask, Lot, Setting, Stateless
from headrace.transferqueue.state.samplers.keys import EarliestDue, Oldest, length
from headrace.transferqueue.state.samplers.ordered import Ordered


class Balanced(Stateless):
    """`ranks` queues, filled in deals; lengths are those under the `aligned` label `by`."""

    def __init__(self, setting: Setting, *, by: str, ranks: int) -> None:
        self._setting = setting
        self._by = by
        self._waiting: dict[int, Lot] = {}
        key = Oldest() if setting.window is None else EarliestDue()
        self._dealt = [Ordered(setting, key) for _ in range(ranks)]
        self._tokens = [0] * ranks
        self._homes: dict[int, tuple[int, int]] = {}

    def push(self, lots: Sequence[Lot]) -> None:
        """See `Sampler.push`. A lot that comes back stays with its rank."""
        for lot in lots:
            self._push(lot)

    def heads(self, ask: Ask, most: int) -> list[Lot]:
        """See `Sampler.heads`."""
        assert ask.rank is not None
        if ask.ended and self._waiting:
            self._deal(all_ranks=False)
        heads, window = self._dealt[ask.rank].heads(ask, most), self._setting.window
        if window is None:
            return heads
        return [lot for lot in heads if lot.unit is None or window.may_take(lot.unit.deadline)]

    def forget(self, rows: Sequence[Row]) -> None:
        """See `Sampler.forget`."""
        for row in rows:
            for lot in (row, row.group):
                self._homes.pop(lot.serial, None)
                self._waiting.pop(lot.serial, None)

    def state(self) -> dict[str, Any]:
        """See `Sampler.state`."""
        return {"tokens": self._tokens, "homes": [[serial, *home] for serial, home in self._homes.items()]}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Sampler.restore`; before any lot is pushed."""
        self._tokens = list(state["tokens"])
        self._homes = {serial: (rank, tokens) for serial, rank, tokens in state["homes"]}

    def _push(self, lot: Lot) -> None:
        home = self._homes.get(lot.serial)
        if home is not None:
            self._dealt[home[0]].push([lot])
            return
        self._waiting[lot.serial] = lot
        if len(self._waiting) >= len(self._dealt):
            self._deal(all_ranks=True)

    def _deal(self, *, all_ranks: bool) -> None:
        ready = {serial: lot for serial, lot in self._waiting.items() if self._setting.is_ready(lot)}
        self._waiting = ready
        while ready and (len(ready) >= len(self._dealt) or not all_ranks):
            hand = [ready.pop(serial) for serial in list(ready)[: len(self._dealt)]]
            hand.sort(key=lambda lot: -length(lot, self._by))
            ranks = sorted(range(len(self._dealt)), key=lambda rank: self._tokens[rank])
            for rank, lot in zip(ranks, hand, strict=False):
                tokens = length(lot, self._by)
                self._tokens[rank] += tokens
                self._homes[lot.serial] = (rank, tokens)
                self._dealt[rank].push([lot])
