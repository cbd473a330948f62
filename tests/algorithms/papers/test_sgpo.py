"""sGPO, https://arxiv.org/abs/2606.08854: group sizes from one cheap profile."""

import numpy as np

from headrace.algorithms.budgets import InverseSuccess
from headrace.algorithms.budgets.options import SgpoOptions
from headrace.algorithms.curricula import Profiled
from headrace.algorithms.curricula.options import ProfiledOptions
from headrace.algorithms.prompt_data import PromptData

SIZE = 4000


def mixed(rates: np.ndarray, sizes: np.ndarray | int) -> float:
    """Expected number of groups with both outcomes."""
    return float((1.0 - rates**sizes - (1.0 - rates) ** sizes).sum())


def test_mixed_groups_per_rollout_rise_by_two_fifths_over_a_fixed_size() -> None:
    generator = np.random.default_rng(0)
    rates = generator.beta(0.5, 0.5, SIZE)
    data = PromptData(size=SIZE, pass_rates=generator.binomial(4, rates) / 4)
    order = Profiled(data, ProfiledOptions(unsolved_share=0.5)).order
    sizes = InverseSuccess(data, SgpoOptions(low=2, high=8)).allocate(order, 0)
    gain = mixed(rates[order], sizes) / sizes.sum()
    fixed = mixed(rates, 8) / (8 * SIZE)
    assert gain >= 1.4 * fixed


def test_group_sizes_never_fall_as_prompts_get_harder_and_easy_ones_come_first() -> None:
    data = PromptData(size=6, pass_rates=np.array([0.75, 0.125, 0.5, 1.0, 0.25, 0.0]))
    order = Profiled(data, ProfiledOptions(unsolved_share=1.0)).order
    assert order.tolist() == [0, 2, 4, 1, 5]
    sizes = InverseSuccess(data, SgpoOptions(high=32)).allocate(order, 0)
    assert sizes.tolist() == [2, 2, 4, 8, 32]
