"""sGPO's data half: a cheap profile decides which prompts are worth an epoch, and in which order.

The profile is the pass rate of each prompt under the initial policy, from a few samples.
"""

import numpy as np

from headrace.algorithms.feedback import Feedback
from headrace.algorithms.saved import State


class Profiled:
    """From easy to hard, without trivial prompts and with a share of those that were never solved.

    sGPO (https://arxiv.org/abs/2606.08854). Deviation: where the published summary drops "trivial" prompts,
    the bound is a parameter. Equal pass rates keep the order of the data set.
    """

    def __init__(
        self,
        *,
        pass_rates: np.ndarray,
        seed: int,
        trivial: float = 1.0,
        unsolved_share: float = 0.5,
        epochs: int | None = None,
    ) -> None:
        """`pass_rates` float64 [size] in [0, 1]; prompts at or above `trivial` are left out; `epochs` None:
        without end. Raises ValueError where nothing is left, or for values out of range.
        """
        if not (0 < trivial <= 1 and 0 <= unsolved_share <= 1 and (epochs is None or epochs > 0)):
            raise ValueError(
                f"trivial is {trivial}, unsolved_share {unsolved_share}, epochs {epochs}; trivial must lie in"
                " (0, 1], unsolved_share in [0, 1], epochs be 1 or more or None"
            )
        unsolved = np.flatnonzero(pass_rates <= 0)
        kept = round(unsolved_share * len(unsolved))
        sample = np.random.default_rng(seed).permutation(unsolved)[:kept]
        chosen = np.sort(np.concatenate([np.flatnonzero((pass_rates > 0) & (pass_rates < trivial)), sample]))
        if len(chosen) == 0:
            raise ValueError(
                f"of {len(pass_rates)} prompts none is left: all are solved at {trivial} or above, or never;"
                " profile with more samples, raise trivial, or raise unsolved_share"
            )
        self._order = chosen[np.argsort(-pass_rates[chosen], kind="stable")].astype(np.int64)
        self._epochs = epochs
        self._drawn = 0

    @property
    def order(self) -> np.ndarray:
        """One epoch, int64: indices from the highest pass rate to the lowest."""
        return self._order.copy()

    def draw(self, count: int) -> np.ndarray:
        if self._epochs is not None and self._drawn + count > len(self._order) * self._epochs:
            raise IndexError(
                f"prompt {self._drawn + count} is beyond the data: {len(self._order)} prompts x"
                f" {self._epochs} epochs"
            )
        places = (self._drawn + np.arange(count)) % len(self._order)
        self._drawn += count
        return self._order[places]

    def update(self, feedback: Feedback) -> None:
        """Hears nothing: the profile was made before the run."""

    def state(self) -> State:
        return {"drawn": self._drawn}

    def load_state(self, state: State) -> None:
        self._drawn = state["drawn"]
