"""GreedyLR, https://arxiv.org/abs/2512.14527: the rate follows the loss."""

import numpy as np

from headrace.algorithms.schedules import learning_rate
from headrace.algorithms.updates import GreedyRate

STEPS, FACTOR = 200, 0.9
CURVATURES = np.array([1.0, 0.3, 0.1])


def losses(rates: GreedyRate | None, seed: int) -> tuple[float, list[float], list[float]]:
    """Last loss, rates and observed losses of a noisy quadratic; None: a cosine from the same first rate."""
    generator = np.random.default_rng(seed)
    point = np.ones(3)
    rate, used, seen = 0.05, [], []
    for step in range(STEPS):
        if rates is None:
            rate = learning_rate(step, peak=0.05, schedule="cosine", total_steps=STEPS)
        gradient = CURVATURES * point + 0.02 * generator.normal(size=3)
        observed = float(0.5 * (CURVATURES * point**2).sum() + 0.002 * generator.normal())
        point = point - rate * gradient
        used.append(rate)
        seen.append(observed)
        if rates is not None:
            rate = rates.observe(observed)
    return float(0.5 * (CURVATURES * point**2).sum()), used, seen


def test_the_loss_ends_at_or_below_that_of_a_cosine_from_the_same_rate() -> None:
    for seed in range(5):
        greedy = GreedyRate(initial=0.05, factor=FACTOR, patience=2, window=5, lowest=0.001, highest=1.0)
        assert losses(greedy, seed)[0] <= losses(None, seed)[0]


def test_every_move_follows_the_loss_and_stays_within_the_factor() -> None:
    greedy = GreedyRate(initial=0.05, factor=FACTOR, lowest=1e-6, highest=1e6)
    _, used, seen = losses(greedy, 0)
    for step in range(1, STEPS - 1):
        moved = used[step + 1] / used[step]
        assert FACTOR - 1e-12 <= moved <= 1 / FACTOR + 1e-12
        assert (moved > 1) == (seen[step] < seen[step - 1])
