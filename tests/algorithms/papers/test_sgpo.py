"""sGPO, https://arxiv.org/abs/2606.08854: group sizes from one cheap profile."""

import numpy as np

from headrace.algorithms.budgets import InverseSuccess
from headrace.algorithms.curricula import Profiled

SIZE = 4000


def mixed(rates: np.ndarray, sizes: np.ndarray | int) -> float:
    """Expected number of groups with both outcomes."""
    return float((1.0 - rates**sizes - (1.0 - rates) ** sizes).sum())


def test_mixed_groups_per_rollout_rise_by_two_fifths_over_a_fixed_size() -> None:
    generator = np.random.default_rng(0)
    rates = generator.beta(0.5, 0.5, SIZE)
    profile = generator.binomial(4, rates) / 4
    order = Profiled(pass_rates=profile, seed=0, unsolved_share=0.5).order
    sizes = InverseSuccess(pass_rates=profile, low=2, high=8).allocate(order, 0)
    gain = mixed(rates[order], sizes) / sizes.sum()
    fixed = mixed(rates, 8) / (8 * SIZE)
    assert gain >= 1.4 * fixed


def test_group_sizes_never_fall_as_prompts_get_harder_and_easy_ones_come_first() -> None:
    profile = np.array([0.75, 0.125, 0.5, 1.0, 0.25, 0.0])
    order = Profiled(pass_rates=profile, seed=0, unsolved_share=1.0).order
    assert order.tolist() == [0, 2, 4, 1, 5]
    assert InverseSuccess(pass_rates=profile, high=32).allocate(order, 0).tolist() == [2, 2, 4, 8, 32]
