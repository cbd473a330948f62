"""What a data sampler is: it says which prompt comes next, and hears how the answers did.

A sampler is a pure function of its options, its seed and what it was told: a restored copy draws what the
saved one would have drawn.
"""

from typing import Protocol

import numpy as np

from headrace.algorithms.feedback import Feedback
from headrace.algorithms.saved import Saved


class DataSampler(Saved, Protocol):
    def draw(self, count: int) -> np.ndarray:
        """Indices of the next `count` prompts, int64 [count].

        Raises IndexError, having drawn none, where so many cannot be had: the data has ended, if 1 cannot.
        """
        ...

    def update(self, feedback: Feedback) -> None:
        """Takes in what became of prompts that were drawn; may lag behind the draws, or never come."""
        ...
