"""RuleReasoner: domains are drawn by how far their rewards lie below the target."""

import numpy as np

from headrace.algorithms.curricula.domains import DomainSampler, softmax
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.saved import State, check_length


class UnderOptimised(DomainSampler):
    """Softmax over max(target - moving average of the domain's mean reward, 0).

    Domain-aware dynamic sampling (https://arxiv.org/abs/2506.08672): average = smoothing * average +
    (1 - smoothing) * the step's mean. Deviations: the first mean a domain gives starts its average, where a
    start at 0 would make a domain look bad because it was not yet seen; until then it counts as reward 0.
    The temperature and the floor are ours, since the ones used were not published.
    """

    def __init__(
        self,
        *,
        domains: np.ndarray,
        seed: int,
        target: float = 1.0,
        smoothing: float = 0.5,
        temperature: float = 0.25,
        floor: float = 0.0,
    ) -> None:
        """`floor`: share that each domain keeps. Raises ValueError for values out of range."""
        super().__init__(domains=domains, seed=seed)
        if not (0 <= smoothing < 1 and temperature > 0 and 0 <= floor * self.number <= 1):
            raise ValueError(
                f"smoothing is {smoothing}, temperature {temperature}, floor {floor}; smoothing must lie in"
                f" [0, 1), temperature above 0, floor between 0 and 1/{self.number}, the number of domains"
            )
        self._target, self._smoothing = target, smoothing
        self._temperature, self._floor = temperature, floor
        self._averages = np.full(self.number, np.nan)

    def weights(self, position: int) -> np.ndarray:
        gaps = np.maximum(self._target - np.nan_to_num(self._averages, nan=0.0), 0.0)
        return self._floor + (1.0 - self.number * self._floor) * softmax(gaps, self._temperature)

    def update(self, feedback: Feedback) -> None:
        valid = ~np.isnan(feedback.rewards)
        domains = self._domains[feedback.prompts[valid]]
        counts = np.bincount(domains, minlength=self.number)
        sums = np.bincount(domains, weights=feedback.rewards[valid], minlength=self.number)
        seen = counts > 0
        means = sums[seen] / counts[seen]
        before = np.where(np.isnan(self._averages[seen]), means, self._averages[seen])
        self._averages[seen] = self._smoothing * before + (1.0 - self._smoothing) * means

    def state(self) -> State:
        averages = [None if np.isnan(average) else average for average in self._averages.tolist()]
        return super().state() | {"averages": averages}

    def load_state(self, state: State) -> None:
        check_length("domains", state["averages"], self.number)
        super().load_state(state)
        self._averages = np.array(state["averages"], dtype=np.float64)
