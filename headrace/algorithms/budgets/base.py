"""What a budget allocator is: it says how many samples each prompt of a step gets."""

from typing import ClassVar, Protocol

import numpy as np

from headrace.algorithms.feedback import Feedback
from headrace.algorithms.saved import Saved


class BudgetError(ValueError):
    """The bounds per prompt leave no way to spend the budget."""


class BudgetAllocator(Saved, Protocol):
    spends_budget: ClassVar[bool]
    """Whether sizes sum to the budget exactly; else the size of a step follows from its prompts."""

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        """Samples of each prompt, int64 [P]; 0 leaves a prompt out.

        `prompts` int64 [P], indices in the data set; `budget`, the step's samples in all. Raises BudgetError.
        """
        ...

    def update(self, feedback: Feedback) -> None:
        """Takes in what became of the samples; may lag behind, or never come."""
        ...
