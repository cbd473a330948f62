"""E2H: levels of difficulty in turn, the easy ones fading as the run goes on."""

import math

import numpy as np

from headrace.algorithms.curricula.domains import DomainSampler


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

    def __init__(self, *, domains: np.ndarray, seed: int, prompts_per_step: int, steps: int) -> None:
        super().__init__(domains=domains, seed=seed)
        if prompts_per_step < 1 or steps < 1:
            raise ValueError(
                f"prompts_per_step is {prompts_per_step} and steps {steps}; both must be 1 or more"
            )
        self._per_step, self._steps = prompts_per_step, steps

    def progress(self, position: int) -> float:
        """Share of the run's steps before the one that draw `position` belongs to."""
        return min(position // self._per_step / self._steps, 1.0)


class CosineLevels(_ByLevel):
    """Levels by `cosine_levels`; `domains` holds the level of each prompt, 0 the easiest."""

    def weights(self, position: int) -> np.ndarray:
        return cosine_levels(self.progress(position), self.number)


class GaussianLevels(_ByLevel):
    """Levels by `gaussian_levels`; `domains` holds the level of each prompt, 0 the easiest."""

    def __init__(
        self,
        *,
        domains: np.ndarray,
        seed: int,
        prompts_per_step: int,
        steps: int,
        exponent: float = 0.5,
        sigma: float = 0.5,
        floor: float = 0.0,
    ) -> None:
        """Raises ValueError unless exponent and sigma are above 0 and floor is within 0 and 1 / levels."""
        super().__init__(domains=domains, seed=seed, prompts_per_step=prompts_per_step, steps=steps)
        if not (exponent > 0 and sigma > 0 and 0 <= floor * self.number <= 1):
            raise ValueError(
                f"exponent is {exponent}, sigma {sigma}, floor {floor}; exponent and sigma must be above 0"
                f" and floor between 0 and 1/{self.number}, the number of levels"
            )
        self._curve = {"exponent": exponent, "sigma": sigma, "floor": floor}

    def weights(self, position: int) -> np.ndarray:
        return gaussian_levels(self.progress(position), self.number, **self._curve)
