"""Ready lots at random, each row up to a bound of times: a replay buffer.

Invariant: a row is seen at most `uses` times; the draws depend on the seed and on their count alone.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from headrace.transferqueue.state.records import Row
from headrace.transferqueue.state.samplers.base import Ask, Lot, Setting


class Replay:
    """Uniform over the ready lots, O(1) for each draw."""

    def __init__(self, setting: Setting, *, uses: int, seed: int) -> None:
        self._is_ready = setting.is_ready
        self._uses = uses
        self._seed = seed
        self._draws = 0
        self._seen: dict[int, int] = {}
        self._lots: list[Lot] = []
        self._places: dict[int, int] = {}

    def push(self, lots: Sequence[Lot]) -> None:
        """See `Sampler.push`."""
        for lot in lots:
            if lot.serial not in self._places:
                self._places[lot.serial] = len(self._lots)
                self._lots.append(lot)

    def heads(self, ask: Ask, most: int) -> list[Lot]:
        """See `Sampler.heads`; one, as each draw is from those that the one before has left."""
        draw = Random(f"{self._seed}:{self._draws}")
        while self._lots:
            place = draw.randrange(len(self._lots))
            if self._is_ready(self._lots[place]):
                return [self._lots[place]]
            self._remove(place)
        return []

    def taken(self, lots: Sequence[Lot], ask: Ask) -> None:
        """See `Sampler.taken`."""
        for lot in lots:
            self._draws += 1
            self._remove(self._places[lot.serial])

    def again(self, rows: Sequence[Row]) -> list[Row]:
        """See `Sampler.again`."""
        for row in rows:
            self._seen[row.uid] = self._seen.get(row.uid, 0) + 1
        return [row for row in rows if self._seen[row.uid] < self._uses]

    def forget(self, rows: Sequence[Row]) -> None:
        """See `Sampler.forget`."""
        for row in rows:
            self._seen.pop(row.uid, None)

    def state(self) -> dict[str, Any]:
        """See `Sampler.state`."""
        return {"draws": self._draws, "seen": [list(item) for item in self._seen.items()]}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Sampler.restore`."""
        self._draws, self._seen = state["draws"], {uid: seen for uid, seen in state["seen"]}

    def _remove(self, place: int) -> None:
        del self._places[self._lots[place].serial]
        last = self._lots.pop()
        if place < len(self._lots):
            self._lots[place] = last
            self._places[last.serial] = place
