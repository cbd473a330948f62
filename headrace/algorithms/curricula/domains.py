"""Samplers that first choose a domain, then the next prompt of it; subclasses say with which weights."""

from abc import ABC, abstractmethod

import numpy as np

from headrace.algorithms.curricula.options import MixtureOptions, UniformOptions
from headrace.algorithms.curricula.pools import Pools
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State
from headrace.algorithms.seeds import sample_seed

_CHOICE = -1
"""Sets the seeds of choices between domains apart from those of orders within one."""


class DomainSampler(ABC):
    """Draw n chooses its domain with a number that (seed, n) alone fix, however draws are batched."""

    def __init__(self, domains: np.ndarray, seed: int) -> None:
        """`domains` int64 [size]: the domain of each prompt, 0 to K - 1. Raises ValueError as `Pools`."""
        self._domains = domains
        self._pools = Pools(domains, seed)
        self._seed = seed
        self._drawn = 0

    @property
    def number(self) -> int:
        """K, the domains."""
        return self._pools.number

    @property
    def probabilities(self) -> np.ndarray:
        """Of each domain at the next draw, float64 [K]."""
        return self.weights(self._drawn)

    @abstractmethod
    def weights(self, position: int) -> np.ndarray:
        """Probability of each domain at draw `position`, float64 [K], summing to 1."""

    def draw(self, count: int) -> np.ndarray:
        chosen = np.empty(count, dtype=np.int64)
        for place in range(count):
            bounds = np.cumsum(self.weights(self._drawn))
            point = sample_seed(self._seed, _CHOICE, self._drawn) / (1 << 63) * bounds[-1]
            domain = int(np.searchsorted(bounds, point, side="right"))
            chosen[place] = self._pools.take(min(domain, self.number - 1))
            self._drawn += 1
        return chosen

    def update(self, feedback: Feedback) -> None:  # noqa: B027  only samplers with a memory override it
        """Hears nothing: the weights follow from the position alone."""

    def state(self) -> State:
        return {"drawn": self._drawn, "pools": self._pools.state()}

    def load_state(self, state: State) -> None:
        self._drawn = state["drawn"]
        self._pools.load_state(state["pools"])


class Mixture(DomainSampler):
    """Domains in fixed proportions."""

    def __init__(self, data: PromptData, options: MixtureOptions) -> None:
        """Raises ValueError for another number of proportions than of domains."""
        super().__init__(data.known_domains("mixture"), data.seed)
        proportions = options.proportions
        shares = np.ones(self.number) if proportions is None else np.asarray(proportions, dtype=np.float64)
        if shares.shape != (self.number,) or (shares < 0).any() or not shares.sum() > 0:
            raise ValueError(
                f"proportions are {proportions} for {self.number} domains; give one of 0 or more for each,"
                " not all 0"
            )
        self._weights = shares / shares.sum()

    def weights(self, position: int) -> np.ndarray:
        return self._weights


class Uniform(DomainSampler):
    """Every prompt once per epoch, each epoch in an order of its own."""

    def __init__(self, data: PromptData, options: UniformOptions) -> None:
        super().__init__(np.zeros(data.size, dtype=np.int64), data.seed)

    def weights(self, position: int) -> np.ndarray:
        return np.ones(1)


def softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    """exp(scores / temperature), normalised. `scores` float64 [K]."""
    shifted = np.exp((scores - scores.max()) / temperature)
    return shifted / shifted.sum()


def check_floor(floor: float, number: int) -> None:
    """Refuses a share that `number` domains cannot all keep. Raises ValueError."""
    if floor * number > 1.0:
        raise ValueError(f"floor is {floor} for {number} domains; it must lie between 0 and 1/{number}")
