"""A coefficient that moves from one value to another over a span of steps, and holds on either side."""

import math
from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.bounds import Natural, check_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Annealed:
    """Such as ATOD's share of distillation, which falls from 1 to 0 while that of reinforcement rises.

    >>> share = Annealed(start=1.0, end=0.0, last_step=100)
    >>> share.at(25), 1.0 - share.at(25)
    (0.75, 0.25)
    """

    start: float
    end: float
    first_step: Natural = 0
    """The last step at `start`."""
    last_step: Natural
    """The first step at `end`."""
    shape: Literal["linear", "cosine"] = "linear"

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.last_step < self.first_step:
            raise ValueError(
                f"first_step is {self.first_step} and last_step {self.last_step}; the span must not end"
                " before it begins"
            )

    def at(self, step: int) -> float:
        """Value at a step of the run, counted from 0."""
        if step >= self.last_step:
            return self.end
        if step <= self.first_step:
            return self.start
        progress = (step - self.first_step) / (self.last_step - self.first_step)
        if self.shape == "cosine":
            progress = 0.5 * (1.0 - math.cos(math.pi * progress))
        return self.start + (self.end - self.start) * progress
