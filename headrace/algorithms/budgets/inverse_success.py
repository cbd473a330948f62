"""sGPO: as many samples as it takes, on average, to see one success."""

from typing import ClassVar

import numpy as np

from headrace.algorithms.budgets.options import SgpoOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State

ROUNDING = 1e-9
"""Keeps the inverse of 1/3 at 3 samples."""


class InverseSuccess:
    """Group size 1 / p, rounded up, within bounds; p from a profile under the initial policy.

    sGPO (https://arxiv.org/abs/2606.08854). A prompt that the profile never saw solved gets `high`. The
    matching `Profiled` sampler leaves out trivial prompts and most of those.
    """

    spends_budget: ClassVar[bool] = False

    def __init__(self, data: PromptData, options: SgpoOptions) -> None:
        """Raises ValueError where there is no profile."""
        rates = np.maximum(data.known_pass_rates("sgpo"), 1.0 / (options.high + 1))
        sizes = np.ceil(1.0 / rates - ROUNDING)
        self._sizes = np.clip(sizes, options.low, options.high).astype(np.int64)

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        return self._sizes[prompts]

    def update(self, feedback: Feedback) -> None:
        """Hears nothing: the profile was made before the run."""

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None:
        """Has nothing to restore: the profile is an option."""
