"""Spends a budget one sample at a time where it gains most: optimal where each prompt's value is concave."""

import heapq
from collections.abc import Callable

import numpy as np

from headrace.algorithms.budgets.base import BudgetError


def greedy(
    marginal: Callable[[int, int], float], *, prompts: int, low: int, high: int, budget: int
) -> np.ndarray:
    """Samples of each prompt, int64 [P], from `low` to `high` each and `budget` in all.

    `marginal(i, n)` is what prompt i gains by its sample n + 1, and must not rise with n. Ties go to the
    lower index. O(budget * log P). Raises BudgetError where the bounds do not allow the budget.
    """
    check_budget(prompts=prompts, low=low, high=high, budget=budget)
    sizes = np.full(prompts, low, dtype=np.int64)
    heap = [(-marginal(prompt, low), prompt) for prompt in range(prompts)] if low < high else []
    heapq.heapify(heap)
    for _ in range(budget - low * prompts):
        prompt = heap[0][1]
        sizes[prompt] += 1
        size = int(sizes[prompt])
        if size < high:
            heapq.heapreplace(heap, (-marginal(prompt, size), prompt))
        else:
            heapq.heappop(heap)
    return sizes


def check_budget(*, prompts: int, low: int, high: int, budget: int) -> None:
    """Raises BudgetError unless `prompts` of `low` to `high` samples each can make up `budget`."""
    if not low * prompts <= budget <= high * prompts:
        raise BudgetError(
            f"a budget of {budget} samples cannot be spent on {prompts} prompts of {low} to {high} each;"
            f" it must lie between {low * prompts} and {high * prompts}: change the budget, low or high"
        )
