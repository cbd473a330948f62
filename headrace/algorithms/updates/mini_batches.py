"""Several optimizer steps per batch: mini-batches, and passes over the batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from headrace.algorithms.bounds import Count
from headrace.algorithms.checked import Checked
from headrace.algorithms.seeds import sample_seed


@dataclass(frozen=True, kw_only=True)
class MiniBatches(Checked):
    """PPO's epochs of mini-batches, RAPID's off-policy ones (https://arxiv.org/abs/2510.03515).

    Groups are dealt whole, in an order that (seed, batch, epoch) alone fix; sizes differ by at most a group.
    """

    streams: ClassVar[bool] = False
    kind: Literal["mini_batches"] = "mini_batches"
    number: Count = 4
    """Mini-batches per epoch."""
    epochs: Count = 1
    """Passes over the batch."""

    @property
    def updates_per_batch(self) -> int:
        return self.number * self.epochs

    def plan(self, batch: int, groups: np.ndarray, *, seed: int) -> Sequence[np.ndarray]:
        """A batch with fewer groups than mini-batches leaves some of them empty."""
        ids = np.unique(groups)
        return [
            np.flatnonzero(np.isin(groups, chosen))
            for epoch in range(self.epochs)
            for chosen in np.array_split(_shuffled(ids, sample_seed(seed, batch, epoch)), self.number)
        ]


def _shuffled(ids: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(ids)
