"""DUMP: the domain whose answers still earn an advantage is drawn more, an unseen one is tried first."""

from collections import deque

import numpy as np

from headrace.algorithms.curricula.domains import DomainSampler, softmax
from headrace.algorithms.curricula.options import DumpOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State, check_size


class Dump(DomainSampler):
    """Upper confidence bound on the mean absolute advantage of each domain, under a softmax.

    https://arxiv.org/abs/2504.09710: mean of the last 300 |advantage| + sqrt(2 ln(N + 1) / (n_i + 1)), over
    temperature 0.1; n_i rows of the domain so far, N of all. Constants are those of the published code.
    """

    def __init__(self, data: PromptData, options: DumpOptions) -> None:
        """Raises ValueError where the data set names no domains."""
        super().__init__(data.known_domains("dump"), data.seed)
        self._temperature = options.temperature
        self._recent = [deque[float](maxlen=options.window) for _ in range(self.number)]
        self._rows = np.zeros(self.number, dtype=np.int64)
        self._weights = self._computed()

    def weights(self, position: int) -> np.ndarray:
        return self._weights

    def update(self, feedback: Feedback) -> None:
        """Raises ValueError without advantages: the method has nothing to learn from."""
        if feedback.advantages is None:
            raise ValueError(
                "DUMP weighs domains by advantages, and the feedback has none; use an algorithm with them"
            )
        valid = ~np.isnan(feedback.rewards)
        domains = self._domains[feedback.prompts[valid]]
        for domain, advantage in zip(domains.tolist(), feedback.advantages[valid].tolist(), strict=True):
            self._recent[domain].append(abs(advantage))
        self._rows += np.bincount(domains, minlength=self.number)
        self._weights = self._computed()

    def state(self) -> State:
        recent = [list(values) for values in self._recent]
        return super().state() | {"recent": recent, "rows": self._rows.tolist()}

    def load_state(self, state: State) -> None:
        check_size("domains", len(state["rows"]), self.number)
        super().load_state(state)
        for kept, saved in zip(self._recent, state["recent"], strict=True):
            kept.clear()
            kept.extend(saved)
        self._rows = np.array(state["rows"], dtype=np.int64)
        self._weights = self._computed()

    def _computed(self) -> np.ndarray:
        learnt = np.array([np.mean(values) if values else 0.0 for values in self._recent])
        bonus = np.sqrt(2.0 * np.log(max(int(self._rows.sum()), 1) + 1) / (self._rows + 1))
        return softmax(learnt + bonus, self._temperature)
