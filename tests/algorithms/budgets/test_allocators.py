import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from headrace.algorithms.budgets import (
    ALLOCATORS,
    BudgetError,
    BudgetOptions,
    Capability,
    Fixed,
    InverseSuccess,
    MixedOutcome,
    StagedBudget,
    StageSize,
    beta_density,
    beta_parameters,
    build_allocator,
    greedy,
    mixed_outcome_gain,
)
from headrace.algorithms.budgets.options import (
    CobaRlOptions,
    FixedOptions,
    PythonBudgetOptions,
    SgpoOptions,
    StagedOptions,
    TraceOptions,
)
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData

PROMPTS = np.arange(4)
DATA = PromptData(size=4, pass_rates=np.array([1.0, 0.25, 1 / 3, 0.0]))


def test_a_fixed_budget_is_shared_equally_or_refused() -> None:
    assert Fixed(DATA, FixedOptions()).allocate(PROMPTS, 32).tolist() == [8, 8, 8, 8]
    with pytest.raises(BudgetError, match="30 samples cannot be shared equally by 4 prompts"):
        Fixed(DATA, FixedOptions()).allocate(PROMPTS, 30)


def test_stages_change_the_size_after_so_many_prompts_and_remember_it() -> None:
    stages = (StageSize(prompts=6, samples_per_prompt=8), StageSize(prompts=1, samples_per_prompt=64))
    budget = StagedBudget(DATA, StagedOptions(stages=stages))
    assert budget.allocate(PROMPTS, 0).tolist() == [8, 8, 8, 8]
    restored = StagedBudget(DATA, StagedOptions(stages=stages))
    restored.load_state(json.loads(json.dumps(budget.state())))
    assert restored.allocate(PROMPTS, 0).tolist() == [8, 8, 64, 64]


def test_group_sizes_are_the_inverse_of_the_success_rate_within_bounds() -> None:
    assert InverseSuccess(DATA, SgpoOptions(high=16)).allocate(PROMPTS, 0).tolist() == [2, 4, 3, 16]
    with pytest.raises(ValueError, match="sgpo needs pass rates, and no profile was made"):
        InverseSuccess(PromptData(size=4), SgpoOptions())


def test_bounds_that_cross_are_refused() -> None:
    with pytest.raises(ValueError, match="low is 9 and high 8"):
        SgpoOptions(low=9)
    with pytest.raises(ValueError, match=r"tau_min is 3\.0 and tau_max 1\.0"):
        Capability(DATA, CobaRlOptions(tau_max=1.0))
    with pytest.raises(ValueError, match="stages is empty"):
        StagedOptions(stages=())


OPTIONS: list[BudgetOptions] = [
    FixedOptions(),
    StagedOptions(stages=(StageSize(prompts=1, samples_per_prompt=8),)),
    SgpoOptions(),
    CobaRlOptions(),
    TraceOptions(),
]


def test_every_kind_is_built_by_its_name_and_can_be_saved() -> None:
    assert [options.kind for options in OPTIONS] == list(ALLOCATORS)
    for options in OPTIONS:
        allocator, restored = build_allocator(options, DATA), build_allocator(options, DATA)
        allocator.update(Feedback(prompts=np.array([0, 0, 1]), rewards=np.array([1.0, 0.0, 1.0])))
        restored.load_state(json.loads(json.dumps(allocator.state())))
        sizes = allocator.allocate(PROMPTS, 32)
        assert restored.allocate(PROMPTS, 32).tolist() == sizes.tolist()
        assert not allocator.spends_budget or sizes.sum() == 32


def test_an_allocator_of_ones_own_is_built_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class One:\n"
        "    def __init__(self, data, *, each):\n"
        "        self.each = each\n"
        "    def allocate(self, prompts, budget):\n"
        "        return [self.each] * len(prompts)\n"
    )
    options = PythonBudgetOptions(path=f"{tmp_path / 'mine.py'}:One", options={"each": 3})
    assert list(build_allocator(options, DATA).allocate(PROMPTS, 0)) == [3, 3, 3, 3]


def test_greedy_spends_where_it_gains_most_within_bounds() -> None:
    gains = {0: [8.0, 4.0, 2.0, 1.0], 1: [5.0, 3.0, 1.5, 0.5], 2: [0.1] * 4}

    def marginal(prompt: int, samples: int) -> float:
        return gains[prompt][samples]

    assert greedy(marginal, prompts=3, low=0, high=4, budget=4).tolist() == [2, 2, 0]
    assert greedy(marginal, prompts=3, low=1, high=2, budget=5).tolist() == [2, 2, 1]
    with pytest.raises(BudgetError, match="it must lie between 3 and 6"):
        greedy(lambda prompt, samples: 1.0, prompts=3, low=1, high=2, budget=7)


def test_greedy_is_optimal_for_concave_values() -> None:
    rates, scale = [0.1, 0.45, 0.8], [1.0, 2.0, 0.7]

    def value(prompt: int, samples: int) -> float:
        return scale[prompt] * (1 - math.exp(-samples * rates[prompt]))

    sizes = greedy(lambda p, n: value(p, n + 1) - value(p, n), prompts=3, low=0, high=6, budget=8).tolist()
    best = max(
        (each for each in itertools.product(range(7), repeat=3) if sum(each) == 8),
        key=lambda each: sum(value(prompt, samples) for prompt, samples in enumerate(each)),
    )
    assert sizes == list(best)


def test_the_density_has_its_mode_at_the_moved_failure_rate() -> None:
    assert beta_parameters(0.8) == (5.0, 2.0)
    alpha, beta = beta_parameters(0.5)
    assert (alpha, beta) == (3.5, 3.5)
    assert beta_parameters(0.0)[0] == pytest.approx(1 + 5 / (1 + math.exp(5)), abs=1e-12)
    grid = np.arange(1, 1000) / 1000
    assert grid[beta_density(grid, *beta_parameters(0.8)).argmax()] == 0.8
    assert beta_density(np.array([0.5]), 2.0, 2.0)[0] == pytest.approx(1.5, abs=1e-12)


def test_capability_hears_the_failure_rate_over_a_window_of_steps() -> None:
    budget = Capability(DATA, CobaRlOptions(window=2))
    assert budget.failure_rate is None
    for rewards in ([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]):
        budget.update(Feedback(prompts=np.array([0, 0, 1]), rewards=np.array(rewards)))
    assert budget.failure_rate == pytest.approx((0.25 + 1.0) / 2, abs=1e-12)


def test_capability_before_any_feedback_shares_equally() -> None:
    assert Capability(DATA, CobaRlOptions()).allocate(PROMPTS, 32).tolist() == [8, 8, 8, 8]


def test_a_restored_capability_allocates_alike() -> None:
    budget, restored = (
        Capability(DATA, CobaRlOptions()),
        Capability(DATA, CobaRlOptions()),
    )
    budget.update(Feedback(prompts=np.array([0, 1, 1, 2]), rewards=np.array([1.0, 1.0, 0.0, float("nan")])))
    restored.load_state(json.loads(json.dumps(budget.state())))
    assert restored.allocate(PROMPTS, 40).tolist() == budget.allocate(PROMPTS, 40).tolist()
    assert budget.allocate(PROMPTS, 40).sum() == 40


def test_the_gain_of_a_sample_is_the_rise_of_the_chance_of_a_mixed_group() -> None:
    for rate, samples in itertools.product((0.1, 0.5, 0.9), range(1, 5)):
        before = 1 - rate**samples - (1 - rate) ** samples
        after = 1 - rate ** (samples + 1) - (1 - rate) ** (samples + 1)
        assert mixed_outcome_gain(rate, samples) == pytest.approx(after - before, abs=1e-12)


def test_continuations_go_first_to_the_anchor_whose_outcome_is_least_sure() -> None:
    budget = MixedOutcome(PromptData(size=3), TraceOptions())
    rewards = np.array([1.0] * 8 + [1.0, 0.0] * 4 + [0.0] * 8)
    budget.update(Feedback(prompts=np.repeat([0, 1, 2], 8), rewards=rewards))
    sizes = budget.allocate(np.arange(3), 5)
    assert sizes.tolist() == [1, 3, 1]
    assert budget.allocate(np.arange(3), 12).tolist() == [4, 4, 4]
    restored = MixedOutcome(PromptData(size=3), TraceOptions())
    restored.load_state(json.loads(json.dumps(budget.state())))
    assert restored.allocate(np.arange(3), 5).tolist() == sizes.tolist()
