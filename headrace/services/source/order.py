"""The order of a run's data: from a position in the stream of prompts to (epoch, index).

Pure: the order depends on (size, seed, shuffle) alone, so a resumed run draws what an
uninterrupted one would have drawn.
"""

from dataclasses import dataclass

import numpy as np

from headrace.algorithms.feedback import Feedback
from headrace.algorithms.saved import State

_WORD = (1 << 64) - 1
_ROUNDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOrder:
    """The order of a data set's prompts over epochs, each epoch in a permutation of its own.

    Takes O(1) memory at any size: the permutation is a keyed Feistel network, walked until it lands below
    `size` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
    """

    size: int
    """Prompts per epoch."""
    seed: int
    shuffle: bool = True
    """False: every epoch in the order of the data set."""
    epochs: int | None = None
    """None: without end."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is {self.size}; a data set must hold at least one prompt")
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}; it must be 1 or more, or None for no end")

    @property
    def total(self) -> int | None:
        """Positions in all; None: without end."""
        return None if self.epochs is None else self.size * self.epochs

    def at(self, position: int) -> tuple[int, int]:
        """(epoch, index) of `position` >= 0. Raises IndexError beyond the last epoch."""
        if position < 0 or (self.total is not None and position >= self.total):
            raise IndexError(
                f"position {position} is outside the data: {self.size} prompts x {self.epochs} epochs"
            )
        epoch, offset = divmod(position, self.size)
        if not self.shuffle:
            return epoch, offset
        return epoch, _permuted(offset, self.size, _mixed(_mixed(self.seed) ^ epoch))


class Ordered:
    """The order as a `DataSampler`, for a budget that goes by what prompts were drawn."""

    def __init__(self, order: DataOrder) -> None:
        self._order = order
        self._drawn = 0

    def draw(self, count: int) -> np.ndarray:
        """As of `DataSampler`."""
        indices = [self._order.at(self._drawn + place)[1] for place in range(count)]
        self._drawn += count
        return np.array(indices, dtype=np.int64)

    def update(self, feedback: Feedback) -> None:
        """Hears nothing: the order is known in advance."""

    def state(self) -> State:
        return {"drawn": self._drawn}

    def load_state(self, state: State) -> None:
        self._drawn = state["drawn"]


def _permuted(value: int, size: int, key: int) -> int:
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half_bits) - 1
    while True:
        left, right = value >> half_bits, value & mask
        for turn in range(_ROUNDS):
            left, right = right, left ^ (_mixed(key + (turn << 32) + right) & mask)
        value = left << half_bits | right
        if value < size:
            return value


def _mixed(value: int) -> int:
    """SplitMix64's finaliser (Steele, Lea and Flood, 2014): every input bit reaches every output bit."""
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _WORD
    return value ^ value >> 31
