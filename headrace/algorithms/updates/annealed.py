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
    """Value up to first_step."""
    end: float
    """Value from last_step on."""
    first_step: Natural = 0
    """The last training step at `start`."""
    last_step: Natural
    """The first training step at `end`."""
    shape: Literal["linear", "cosine"] = "linear"
    """Of the way between them."""

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


def at(coefficient: float | Annealed, step: int) -> float:
    """A coefficient's value at a step of the run, whether it moves or not."""
    return coefficient.at(step) if isinstance(coefficient, Annealed) else coefficient


def largest(coefficient: float | Annealed) -> float:
    """The largest value that a coefficient has in a run."""
    return max(coefficient.start, coefficient.end) if isinstance(coefficient, Annealed) else coefficient
