"""RuleReasoner: domains are drawn by how far their rewards lie below the target."""

import numpy as np

from headrace.algorithms.curricula.domains import DomainSampler, check_floor, softmax
from headrace.algorithms.curricula.options import RuleReasonerOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State, check_size


class UnderOptimised(DomainSampler):
    """Softmax over max(target - moving average of the domain's mean reward, 0).

    Domain-aware dynamic sampling (https://arxiv.org/abs/2506.08672): average = smoothing * average +
    (1 - smoothing) * the step's mean. Deviations: the first mean a domain gives starts its average, where a
    start at 0 would make a domain look bad because it was not yet seen; until then it counts as reward 0.
    """

    def __init__(self, data: PromptData, options: RuleReasonerOptions) -> None:
        """Raises ValueError where the data set names no domains, and for a floor above 1 / domains."""
        super().__init__(data.known_domains("rule_reasoner"), data.seed)
        check_floor(options.floor, self.number)
        self._options = options
        self._averages = np.full(self.number, np.nan)

    def weights(self, position: int) -> np.ndarray:
        gaps = np.maximum(self._options.target - np.nan_to_num(self._averages, nan=0.0), 0.0)
        floor = self._options.floor
        return floor + (1.0 - self.number * floor) * softmax(gaps, self._options.temperature)

    def update(self, feedback: Feedback) -> None:
        valid = ~np.isnan(feedback.rewards)
        domains = self._domains[feedback.prompts[valid]]
        counts = np.bincount(domains, minlength=self.number)
        sums = np.bincount(domains, weights=feedback.rewards[valid], minlength=self.number)
        seen = counts > 0
        means = sums[seen] / counts[seen]
        before = np.where(np.isnan(self._averages[seen]), means, self._averages[seen])
        kept = self._options.smoothing
        self._averages[seen] = kept * before + (1.0 - kept) * means

    def state(self) -> State:
        averages = [None if np.isnan(average) else average for average in self._averages.tolist()]
        return super().state() | {"averages": averages}

    def load_state(self, state: State) -> None:
        check_size("domains", len(state["averages"]), self.number)
        super().load_state(state)
        self._averages = np.array(state["averages"], dtype=np.float64)
