"""Several optimizer steps per batch: mini-batches, and passes over the batch."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from headrace.algorithms.seeds import sample_seed


class MiniBatches:
    """PPO's epochs of mini-batches, RAPID's off-policy ones (https://arxiv.org/abs/2510.03515).

    Groups are dealt whole, in an order that (seed, batch, epoch) alone fix; sizes differ by at most a group.
    """

    streams: ClassVar[bool] = False

    def __init__(self, *, number: int = 4, epochs: int = 1, seed: int = 0) -> None:
        """`number` of mini-batches per epoch. Raises ValueError unless both are 1 or more."""
        if number < 1 or epochs < 1:
            raise ValueError(f"number is {number} and epochs {epochs}; both must be 1 or more")
        self._number, self._epochs, self._seed = number, epochs, seed

    @property
    def updates_per_batch(self) -> int:
        return self._number * self._epochs

    def plan(self, batch: int, groups: np.ndarray) -> Sequence[np.ndarray]:
        """Raises ValueError for a batch with fewer groups than mini-batches."""
        ids = np.unique(groups)
        if len(ids) < self._number:
            raise ValueError(
                f"batch {batch} has {len(ids)} groups for {self._number} mini-batches; lower number, or raise"
                " the prompts per step"
            )
        return [
            np.flatnonzero(np.isin(groups, chosen))
            for epoch in range(self._epochs)
            for chosen in np.array_split(self._order(batch, epoch, ids), self._number)
        ]

    def _order(self, batch: int, epoch: int, ids: np.ndarray) -> np.ndarray:
        return np.random.default_rng(sample_seed(self._seed, batch, epoch)).permutation(ids)
