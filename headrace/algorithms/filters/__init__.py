"""Which groups and rows are trained on: dynamic sampling, masked answers, bounded attempts."""

from headrace.algorithms.filters.attempts import Attempts, FilterExhausted
from headrace.algorithms.filters.base import RowFilter, ScoredRows, Verdict
from headrace.algorithms.filters.chain import Chain
from headrace.algorithms.filters.options import ChainOptions, FilterOptions, PythonFilterOptions, build_filter
from headrace.algorithms.filters.overlong import Overlong
from headrace.algorithms.filters.retokenised import Retokenised
from headrace.algorithms.filters.variance import ZeroVariance

__all__ = [
    "Attempts",
    "Chain",
    "ChainOptions",
    "FilterExhausted",
    "FilterOptions",
    "Overlong",
    "PythonFilterOptions",
    "Retokenised",
    "RowFilter",
    "ScoredRows",
    "Verdict",
    "ZeroVariance",
    "build_filter",
]
