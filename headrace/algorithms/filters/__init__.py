"""Which groups and rows are trained on: dynamic sampling, overlong answers, bounded attempts."""

from headrace.algorithms.filters.attempts import Attempts, FilterExhausted
from headrace.algorithms.filters.base import RowFilter, ScoredRows, Verdict
from headrace.algorithms.filters.chain import Chain
from headrace.algorithms.filters.overlong import Overlong
from headrace.algorithms.filters.variance import ZeroVariance

FILTERS: dict[str, type[RowFilter]] = {"zero_variance": ZeroVariance, "overlong": Overlong}
"""Filters by the name that a dataflow gives as `kind`."""

__all__ = [
    "FILTERS",
    "Attempts",
    "Chain",
    "FilterExhausted",
    "Overlong",
    "RowFilter",
    "ScoredRows",
    "Verdict",
    "ZeroVariance",
]
