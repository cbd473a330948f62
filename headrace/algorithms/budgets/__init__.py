"""Budgets: how many samples each prompt of a step gets."""

from headrace.algorithms.budgets.base import BudgetAllocator, BudgetError
from headrace.algorithms.budgets.capability import Capability, beta_density, beta_parameters
from headrace.algorithms.budgets.fixed import Fixed, StagedBudget
from headrace.algorithms.budgets.greedy import check_budget, greedy
from headrace.algorithms.budgets.inverse_success import InverseSuccess
from headrace.algorithms.budgets.mixed_outcome import MixedOutcome, mixed_outcome_gain
from headrace.algorithms.budgets.options import BudgetOptions, StageSize
from headrace.algorithms.budgets.registry import ALLOCATORS, build_allocator

__all__ = [
    "ALLOCATORS",
    "BudgetAllocator",
    "BudgetError",
    "BudgetOptions",
    "Capability",
    "Fixed",
    "InverseSuccess",
    "MixedOutcome",
    "StageSize",
    "StagedBudget",
    "beta_density",
    "beta_parameters",
    "build_allocator",
    "check_budget",
    "greedy",
    "mixed_outcome_gain",
]
