"""What the options of a budget say of it is what the allocator does."""

import numpy as np
import pytest

from headrace.algorithms.budgets import ALLOCATORS, BudgetOptions, StageSize
from headrace.algorithms.budgets.options import (
    CobaRlOptions,
    FixedOptions,
    SgpoOptions,
    StagedOptions,
    TraceOptions,
)
from headrace.algorithms.prompt_data import PromptData

DATA = PromptData(size=6, pass_rates=np.array([0.0, 0.1, 0.2, 0.5, 0.9, 1.0]))
STAGES = (StageSize(prompts=3, samples_per_prompt=2), StageSize(prompts=1, samples_per_prompt=7))


@pytest.mark.parametrize(
    "options",
    [
        FixedOptions(),
        StagedOptions(stages=STAGES),
        SgpoOptions(low=2, high=5),
        CobaRlOptions(low=1, high=9),
        TraceOptions(low=2, high=6),
    ],
)
def test_groups_keep_to_the_sizes_told_and_a_budget_that_is_spent_is_spent(options: BudgetOptions) -> None:
    allocator = ALLOCATORS[options.kind](DATA, options)
    sizes = allocator.allocate(np.arange(6), 6 * 4)
    low, high = options.group_sizes(4)
    assert low <= sizes.min() and sizes.max() <= high
    assert options.spends_budget == type(allocator).spends_budget
    assert sizes.sum() == 24 or not options.spends_budget


def test_the_options_of_every_allocator_are_looked_at() -> None:
    assert sorted(ALLOCATORS) == ["coba_rl", "fixed", "sgpo", "staged", "trace"]
