"""CoBA-RL, https://arxiv.org/abs/2602.03048: the budget follows what the policy can do."""

import itertools
import math

import numpy as np

from headrace.algorithms.budgets import Capability, beta_density, beta_parameters, greedy
from headrace.algorithms.budgets.options import CobaRlOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData

RATES = np.array([0.95, 0.8, 0.5, 0.2, 0.05])


def heard(failure_rate: float, rates: np.ndarray = RATES) -> Capability:
    """An allocator that knows `rates` of prompts 0 to 4, and the failure rate by many other prompts."""
    others = 2000
    budget = Capability(PromptData(size=5 + others), CobaRlOptions(low=1, high=24))
    rest = (1.0 - failure_rate) * (others + 5) - rates.sum()
    budget.update(
        Feedback(
            prompts=np.arange(5 + others),
            rewards=np.concatenate([rates, np.full(others, rest / others)]),
        )
    )
    return budget


def test_the_heap_finds_the_best_of_all_allocations() -> None:
    alpha, beta = beta_parameters(0.4)
    densities, rates = beta_density(RATES[:4], alpha, beta), RATES[:4]

    def value(prompt: int, samples: int) -> float:
        decay = rates[prompt] * (1 - rates[prompt]) / 3.0
        return float(densities[prompt] * (1 - math.exp(-samples * decay)))

    for budget in (4, 7, 12):
        got = greedy(lambda p, n: value(p, n + 1) - value(p, n), prompts=4, low=1, high=6, budget=budget)
        best = max(
            sum(value(prompt, samples) for prompt, samples in enumerate(sizes))
            for sizes in itertools.product(range(1, 7), repeat=4)
            if sum(sizes) == budget
        )
        assert abs(sum(value(prompt, int(samples)) for prompt, samples in enumerate(got)) - best) < 1e-12


def test_each_sample_costs_one_look_at_a_value() -> None:
    looks = 0

    def marginal(prompt: int, samples: int) -> float:
        nonlocal looks
        looks += 1
        return 1.0 / (samples + 1)

    greedy(marginal, prompts=50, low=2, high=30, budget=600)
    assert looks == 50 + (600 - 100)


def test_the_favoured_prompt_moves_from_easy_to_hard_as_the_failure_rate_falls() -> None:
    favoured = [int(heard(failure).allocate(np.arange(5), 40).argmax()) for failure in (0.85, 0.6, 0.35, 0.1)]
    assert favoured == sorted(favoured)
    assert favoured[0] < favoured[-1]


def test_the_whole_budget_is_spent_within_the_bounds() -> None:
    for budget in (5, 6, 37, 119, 120):
        sizes = heard(0.5).allocate(np.arange(5), budget)
        assert sizes.sum() == budget
        assert sizes.min() >= 1 and sizes.max() <= 24
