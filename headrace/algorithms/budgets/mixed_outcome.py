"""TRACE: continuations go to the anchors (prompts or prefixes) most likely to give mixed rewards."""

from typing import ClassVar

import numpy as np

from headrace.algorithms.budgets.greedy import greedy
from headrace.algorithms.budgets.options import TraceOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.outcomes import Outcomes
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State


def mixed_outcome_gain(rate: float, samples: int) -> float:
    """What sample n + 1 adds to 1 - p^n - (1 - p)^n, the chance that n >= 1 samples differ in outcome.

    TRACE (https://arxiv.org/abs/2606.11119); the value is the natural one, its formula was not published.
    """
    return rate * (1.0 - rate) * (rate ** (samples - 1) + (1.0 - rate) ** (samples - 1))


class MixedOutcome:
    """Greedy on the chance of a mixed group; the success rate of an anchor is (successes + 1) / (seen + 2).

    Anchors are indexed as prompts are; a prefix is one once its row exists. A first sample tells nothing of
    mixture, so every anchor gets at least one.
    """

    spends_budget: ClassVar[bool] = True

    def __init__(self, data: PromptData, options: TraceOptions) -> None:
        self._options = options
        self._outcomes = Outcomes(data.size)

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        seen = self._outcomes
        rates = ((seen.sums[prompts] + 1.0) / (seen.counts[prompts] + 2)).tolist()
        return greedy(
            lambda prompt, samples: mixed_outcome_gain(rates[prompt], samples),
            prompts=len(prompts),
            low=self._options.low,
            high=self._options.high,
            budget=budget,
        )

    def update(self, feedback: Feedback) -> None:
        self._outcomes.add(feedback)

    def state(self) -> State:
        return self._outcomes.state()

    def load_state(self, state: State) -> None:
        self._outcomes.load_state(state)
