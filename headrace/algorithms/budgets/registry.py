"""Allocators by the name that a dataflow gives as `kind`."""

from collections.abc import Callable
from typing import Any

from headrace.algorithms.budgets.base import BudgetAllocator
from headrace.algorithms.budgets.capability import Capability
from headrace.algorithms.budgets.fixed import Fixed, StagedBudget
from headrace.algorithms.budgets.inverse_success import InverseSuccess
from headrace.algorithms.budgets.mixed_outcome import MixedOutcome
from headrace.algorithms.budgets.options import BudgetOptions, PythonBudgetOptions
from headrace.algorithms.by_path import find
from headrace.algorithms.prompt_data import PromptData

ALLOCATORS: dict[str, Callable[[PromptData, Any], BudgetAllocator]] = {
    "fixed": Fixed,
    "staged": StagedBudget,
    "sgpo": InverseSuccess,
    "coba_rl": Capability,
    "trace": MixedOutcome,
}
"""What makes an allocator of the data and the options of its kind."""


def build_allocator(options: BudgetOptions, data: PromptData) -> BudgetAllocator:
    """The allocator that `options` name.

    Raises ValueError where the data lacks what the allocator goes by, and for a user's class that is not
    there; ImportError where its module does not import.
    """
    if isinstance(options, PythonBudgetOptions):
        return find(options.path, key="budget.path", what="class")(data, **options.options)
    return ALLOCATORS[options.kind](data, options)
