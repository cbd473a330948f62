"""sGPO's data half: a cheap profile decides which prompts are worth an epoch, and in which order.

The profile is the pass rate of each prompt under the initial policy, from a few samples.
"""

import numpy as np

from headrace.algorithms.curricula.options import ProfiledOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State


class Profiled:
    """From easy to hard, without trivial prompts and with a share of those that were never solved.

    sGPO (https://arxiv.org/abs/2606.08854). Deviation: where the published summary drops "trivial" prompts,
    the bound is a parameter. Equal pass rates keep the order of the data set.
    """

    def __init__(self, data: PromptData, options: ProfiledOptions) -> None:
        """Raises ValueError where there is no profile, or nothing is left of the data."""
        rates = data.known_pass_rates("profiled")
        unsolved = np.flatnonzero(rates <= 0)
        kept = round(options.unsolved_share * len(unsolved))
        sample = np.random.default_rng(data.seed).permutation(unsolved)[:kept]
        solved = np.flatnonzero((rates > 0) & (rates < options.trivial))
        chosen = np.sort(np.concatenate([solved, sample]))
        if len(chosen) == 0:
            raise ValueError(
                f"of {len(rates)} prompts none is left: pass rates are 0, or {options.trivial} or above;"
                " profile with more samples, raise trivial, or raise unsolved_share"
            )
        self._order = chosen[np.argsort(-rates[chosen], kind="stable")].astype(np.int64)
        self._epochs = options.epochs
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
