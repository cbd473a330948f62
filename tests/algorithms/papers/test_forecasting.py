"""RLVR for forecasting: outcomes are noise around a chance, and a division by the spread would bias it.

Only the credit is checked here. That rewards up to 50 steps late neither block nor lose a row, and what
the bound on staleness makes of them, is shown on the queue's own table by
tests/transferqueue/state/test_late_rewards.py.
"""

from collections.abc import Callable

import numpy as np

from headrace.algorithms.advantages import group_mean, group_zscore
from tests.algorithms.papers.learners import softmax

BINS = (np.arange(10) + 0.5) / 10
CHANCES = np.array([0.15, 0.35, 0.75])


def brier_excess(credit: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
    """Mean squared distance of the forecasts from the true chances after training on noisy outcomes."""
    generator = np.random.default_rng(0)
    logits = np.zeros((3, 10))
    for _ in range(2000):
        policy = softmax(logits)
        outcomes = (generator.random(3) < CHANCES).astype(np.float64)
        for question in range(3):
            answers = generator.choice(10, size=8, p=policy[question])
            rewards = -((BINS[answers] - outcomes[question]) ** 2)
            advantages = credit(rewards, np.zeros(8, dtype=np.int64))
            scores = np.eye(10)[answers] - policy[question]
            logits[question] += 0.2 * (advantages[:, None] * scores).mean(axis=0)
    return float((softmax(logits) * (BINS - CHANCES[:, None]) ** 2).sum(axis=1).mean())


def test_forecasts_are_calibrated_without_the_spread_and_less_so_with_it() -> None:
    assert brier_excess(group_mean) < 0.5 * brier_excess(group_zscore)
