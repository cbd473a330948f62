"""Duration-aware gradients, https://arxiv.org/abs/2509.01684: slow but good actions are not under-counted."""

import heapq

import numpy as np

from headrace.algorithms.advantages import duration_weighted
from tests.algorithms.papers.learners import softmax

REWARDS, DURATIONS_S = np.array([0.8, 1.0]), np.array([1.0, 10.0])
WORKERS, HORIZON_S, BATCH, RATE = 16, 60.0, 16, 1.5
FAST, SLOW = 0, 1


def slow_share(*, weighted: bool, seed: int) -> float:
    """Chance of the slow arm after training on results in the order in which 16 workers bring them."""
    generator, logits = np.random.default_rng(seed), np.zeros(2)
    running: list[tuple[float, int]] = []

    def start(now_s: float) -> None:
        arm = int(generator.random() < softmax(logits)[SLOW])
        heapq.heappush(running, (now_s + DURATIONS_S[arm] * generator.uniform(0.9, 1.1), arm))

    for _ in range(WORKERS):
        start(0.0)
    batch: list[int] = []
    while running[0][0] < HORIZON_S:
        now_s, arm = heapq.heappop(running)
        batch.append(arm)
        start(now_s)
        if len(batch) == BATCH:
            arms = np.array(batch)
            credits = REWARDS[arms]
            if weighted:
                credits = duration_weighted(credits, DURATIONS_S[arms])
            logits += RATE * (credits[:, None] * (np.eye(2)[arms] - softmax(logits))).mean(axis=0)
            batch.clear()
    return float(softmax(logits)[SLOW])


def test_weighted_by_duration_the_better_arm_wins_though_it_is_slow() -> None:
    weighted = np.mean([slow_share(weighted=True, seed=seed) for seed in range(20)])
    unweighted = np.mean([slow_share(weighted=False, seed=seed) for seed in range(20)])
    assert weighted >= 0.9
    assert unweighted <= 0.7
