"""AgentRL, https://arxiv.org/abs/2510.04206: advantages normalised per task."""

import numpy as np

from headrace.algorithms.advantages import group_mean, per_task
from tests.algorithms.papers.learners import sigmoid

SCALES = np.array([0.01, 0.1, 1.0, 10.0, 100.0])
"""Reward of a success in each of five environments."""


def test_any_mixture_of_tasks_has_mean_zero_and_deviation_one_per_task() -> None:
    generator = np.random.default_rng(0)
    for sizes in ([2, 3], [50, 1000], [7, 7, 7]):
        tasks = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
        advantages = generator.normal(size=len(tasks)) * SCALES[tasks] * 30 + tasks
        lengths = generator.integers(1, 100, size=len(tasks))
        got = per_task(advantages, tasks, lengths)
        for task in range(len(sizes)):
            weights = lengths[tasks == task] / lengths[tasks == task].sum()
            assert abs((weights * got[tasks == task]).sum()) < 1e-12
            assert abs((weights * got[tasks == task] ** 2).sum() - 1.0) < 1e-12


def final_success(*, normalised: bool) -> np.ndarray:
    generator, logits = np.random.default_rng(0), np.full(5, -1.0)
    tasks = np.repeat(np.arange(5), 16)
    for _ in range(150):
        chances = sigmoid(logits)[tasks]
        hits = generator.random(len(tasks)) < chances
        advantages = group_mean(hits * SCALES[tasks], tasks)
        if normalised:
            advantages = per_task(advantages, tasks)
        np.add.at(logits, tasks, 0.1 * np.clip(advantages * (hits - chances), -5, 5) / 16)
    return sigmoid(logits)


def test_five_environments_of_different_scale_improve_together() -> None:
    together, raw = final_success(normalised=True), final_success(normalised=False)
    assert together.min() > 0.8
    assert raw[0] < 0.3
