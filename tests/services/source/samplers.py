"""Plug points of a user's own, small enough to know what they must say."""

import numpy as np

from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State


class Following:
    """Draws 0, 1, 2, … and begins anew at what it was last told of: its draws show what it has heard."""

    def __init__(self, data: PromptData) -> None:
        self.size, self.next = data.size, 0
        self.told: list[list[int]] = []

    def draw(self, count: int) -> np.ndarray:
        drawn = (self.next + np.arange(count)) % self.size
        self.next += count
        return drawn

    def update(self, feedback: Feedback) -> None:
        self.told.append(feedback.prompts.tolist())
        self.next = 10 * (1 + int(feedback.prompts.max()) // 10)

    def state(self) -> State:
        return {"next": self.next, "told": self.told}

    def load_state(self, state: State) -> None:
        self.next, self.told = state["next"], state["told"]


class ByIndex:
    """As many samples as the prompt's index modulo 3: a third of the prompts is left out."""

    spends_budget = False

    def __init__(self, data: PromptData) -> None:
        """Goes by the index alone."""

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        return prompts % 3

    def update(self, feedback: Feedback) -> None: ...

    def state(self) -> State:
        return {}

    def load_state(self, state: State) -> None: ...
