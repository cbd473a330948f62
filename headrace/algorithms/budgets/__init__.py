"""Budgets: how many samples each prompt of a step gets."""

from headrace.algorithms.budgets.base import BudgetAllocator, BudgetError
from headrace.algorithms.budgets.capability import Capability, beta_density, beta_parameters
from headrace.algorithms.budgets.fixed import Fixed, StagedBudget, StageSize
from headrace.algorithms.budgets.greedy import check_budget, greedy
from headrace.algorithms.budgets.inverse_success import InverseSuccess
from headrace.algorithms.budgets.mixed_outcome import MixedOutcome, mixed_outcome_gain

ALLOCATORS: dict[str, type[BudgetAllocator]] = {
    "fixed": Fixed,
    "staged": StagedBudget,
    "sgpo": InverseSuccess,
    "coba_rl": Capability,
    "trace": MixedOutcome,
}
"""Allocators by the name that a dataflow gives as `kind`."""

__all__ = [
    "ALLOCATORS",
    "BudgetAllocator",
    "BudgetError",
    "Capability",
    "Fixed",
    "InverseSuccess",
    "MixedOutcome",
    "StageSize",
    "StagedBudget",
    "beta_density",
    "beta_parameters",
    "check_budget",
    "greedy",
    "mixed_outcome_gain",
]
