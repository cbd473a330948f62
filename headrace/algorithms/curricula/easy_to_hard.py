"""E2H: levels of difficulty in turn, the easy ones fading as the run goes on."""

import math

import numpy as np

from headrace.algorithms.curricula.domains import DomainSampler, check_floor
from headrace.algorithms.curricula.options import E2hCosineOptions, E2hGaussianOptions
from headrace.algorithms.prompt_data import PromptData


def cosine_levels(progress: float, levels: int) -> np.ndarray:
    """Probability of each level, easiest first: from (K - i) to (i + 1), along a cosine, with a floor.

    E2H Reasoner (https://arxiv.org/abs/2506.06632) as its published code has it: the two ends are mixed by
    a = (1 + cos(pi * progress)) / 2, no level falls below 2 / (K (K + 1)), and the whole is normalised.
    `progress` in [0, 1]. Returns float64 [K].
    """
    early = np.arange(levels, 0, -1) / (levels * (levels + 1) / 2)
    share = 0.5 * (1.0 + math.cos(math.pi * progress))
    mixed = np.maximum(share * early + (1.0 - share) * early[::-1], 2.0 / (levels * (levels + 1)))
    return mixed / mixed.sum()


def gaussian_levels(
    progress: float, levels: int, *, exponent: float, sigma: float, floor: float = 0.0
) -> np.ndarray:
    """Probability of each level: a normal curve whose middle moves from the easiest to the hardest.

    E2H Reasoner (https://arxiv.org/abs/2506.06632): the middle is at progress^exponent * (K - 1), the width
    is `sigma` levels, and every level keeps `floor` (at most 1 / K). Returns float64 [K].
    """
    middle = progress**exponent * (levels - 1)
    curve = np.exp(-((np.arange(levels) - middle) ** 2) / (2.0 * sigma**2))
    return floor + (1.0 - levels * floor) * curve / curve.sum()


class _ByLevel(DomainSampler):
    """Progress is counted in prompts drawn, so it needs no feedback and no clock."""

    def __init__(self, data: PromptData, whose: str) -> None:
        super().__init__(data.known_domains(whose), data.seed)
        self._per_step, self._steps = data.prompts_per_step, data.known_steps(whose)

    def progress(self, position: int) -> float:
        """Share of the run's steps before the one that draw `position` belongs to."""
        return min(position // self._per_step / self._steps, 1.0)


class CosineLevels(_ByLevel):
    """Levels by `cosine_levels`."""

    def __init__(self, data: PromptData, options: E2hCosineOptions) -> None:
        """Raises ValueError where the data set names no levels or the run has no end."""
        super().__init__(data, "e2h_cosine")

    def weights(self, position: int) -> np.ndarray:
        return cosine_levels(self.progress(position), self.number)


class GaussianLevels(_ByLevel):
    """Levels by `gaussian_levels`."""

    def __init__(self, data: PromptData, options: E2hGaussianOptions) -> None:
        """Raises ValueError as `CosineLevels`, and for a floor above 1 / levels."""
        super().__init__(data, "e2h_gaussian")
        check_floor(options.floor, self.number)
        self._curve = {"exponent": options.exponent, "sigma": options.sigma, "floor": options.floor}

    def weights(self, position: int) -> np.ndarray:
        return gaussian_levels(self.progress(position), self.number, **self._curve)
