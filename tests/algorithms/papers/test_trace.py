"""TRACE, https://arxiv.org/abs/2606.11119: continuations of prefixes whose outcome is open."""

import numpy as np

from headrace.algorithms.budgets import MixedOutcome
from headrace.algorithms.budgets.options import TraceOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData


def mixed(rates: np.ndarray, sizes: np.ndarray) -> float:
    return float((1.0 - rates**sizes - (1.0 - rates) ** sizes).sum())


def test_more_groups_are_mixed_than_by_equal_shares_and_most_goes_to_even_chances() -> None:
    rates = np.concatenate([np.full(40, 0.02), np.full(40, 0.98), np.linspace(0.3, 0.7, 20)])
    budget = MixedOutcome(PromptData(size=100), TraceOptions(high=16))
    budget.update(Feedback(prompts=np.tile(np.arange(100), 200), rewards=np.tile(rates, 200)))
    sizes = budget.allocate(np.arange(100), 200)
    assert mixed(rates, sizes) >= 1.3 * mixed(rates, np.full(100, 2))
    assert abs(rates[sizes.argmax()] - 0.5) < 0.25
    assert sizes[:80].max() < sizes[80:].min()
