"""What a run knows of its prompts before it starts, for whoever decides what is drawn and how often."""

from dataclasses import dataclass

import numpy as np

from headrace.algorithms.bounds import Count, check_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptData:
    """Raises ValueError where a column has another length than the data."""

    size: Count
    """Prompts of the data set; a prompt is its index there."""
    seed: int = 0
    """The run's."""
    domains: np.ndarray | None = None
    """int64 [size], domain or level of each prompt, 0 to K - 1. None: the data set names none."""
    pass_rates: np.ndarray | None = None
    """float64 [size] within [0, 1], of a profile under the initial policy. None: none was made."""
    prompts_per_step: Count = 1
    steps: Count | None = None
    """Of the run. None: without end."""

    def __post_init__(self) -> None:
        check_bounds(self)
        for name, column in (("domains", self.domains), ("pass_rates", self.pass_rates)):
            if column is not None and column.shape != (self.size,):
                raise ValueError(f"{name} has shape {column.shape} for {self.size} prompts; give one each")

    def known_domains(self, whose: str) -> np.ndarray:
        """Raises ValueError where there are none, naming who asked."""
        if self.domains is None:
            raise ValueError(
                f"{whose} chooses between domains, and the data set names none; give each prompt one"
            )
        return self.domains

    def known_pass_rates(self, whose: str) -> np.ndarray:
        """Raises ValueError where there are none, naming who asked."""
        if self.pass_rates is None:
            raise ValueError(
                f"{whose} needs pass rates, and no profile was made; run a profile of the data first"
            )
        return self.pass_rates

    def known_steps(self, whose: str) -> int:
        """Raises ValueError where the run has no end, naming who asked."""
        if self.steps is None:
            raise ValueError(f"{whose} moves over the run's steps, and the run has no end; set steps")
        return self.steps
