"""The same number of samples for every prompt, for the whole run or by stage."""

from typing import ClassVar

import numpy as np

from headrace.algorithms.budgets.base import BudgetError
from headrace.algorithms.budgets.options import FixedOptions, StagedOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State


class Fixed:
    """The budget in equal shares."""

    spends_budget: ClassVar[bool] = True

    def __init__(self, data: PromptData, options: FixedOptions) -> None:
        """Goes by neither."""

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        if len(prompts) == 0 or budget % len(prompts):
            raise BudgetError(
                f"{budget} samples cannot be shared equally by {len(prompts)} prompts; make the budget a"
                " multiple of the prompts per step"
            )
        return np.full(len(prompts), budget // len(prompts), dtype=np.int64)

    def update(self, feedback: Feedback) -> None:
        """Hears nothing: shares are fixed."""

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None:
        """Has nothing to restore."""


class StagedBudget:
    """Another size in each stage, such as DRIVE's 8 samples for many prompts, then 64 for few hard ones."""

    spends_budget: ClassVar[bool] = False

    def __init__(self, data: PromptData, options: StagedOptions) -> None:
        self._stages = options.stages
        self._ends = np.cumsum([stage.prompts for stage in options.stages])[:-1]
        self._given = 0

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        places = self._given + np.arange(len(prompts))
        self._given += len(prompts)
        sizes = np.array([stage.samples_per_prompt for stage in self._stages], dtype=np.int64)
        return sizes[np.searchsorted(self._ends, places, side="right")]

    def update(self, feedback: Feedback) -> None:
        """Hears nothing: sizes follow from the number of prompts."""

    def state(self) -> State:
        return {"given": self._given}

    def load_state(self, state: State) -> None:
        self._given = state["given"]
