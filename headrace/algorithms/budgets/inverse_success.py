"""sGPO: as many samples as it takes, on average, to see one success."""

from typing import ClassVar

import numpy as np

from headrace.algorithms.feedback import Feedback
from headrace.algorithms.saved import State


class InverseSuccess:
    """Group size 1 / p, rounded up, within bounds; p from a profile under the initial policy.

    sGPO (https://arxiv.org/abs/2606.08854). A prompt that the profile never saw solved gets `high`. The
    matching `Profiled` sampler leaves out trivial prompts and most of those.
    """

    spends_budget: ClassVar[bool] = False

    def __init__(self, *, pass_rates: np.ndarray, low: int = 2, high: int = 8) -> None:
        """`pass_rates` float64 [size] in [0, 1]. Raises ValueError unless 1 <= low <= high."""
        if not 1 <= low <= high:
            raise ValueError(f"low is {low} and high {high}; they must be 1 or more, low not above high")
        rates = np.maximum(pass_rates, 1.0 / (high + 1))
        self._sizes = np.clip(np.ceil(1.0 / rates - 1e-9), low, high).astype(np.int64)

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        return self._sizes[prompts]

    def update(self, feedback: Feedback) -> None:
        """Hears nothing: the profile was made before the run."""

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None:
        """Has nothing to restore: the profile is an option."""
