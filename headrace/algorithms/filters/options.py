"""Options of the filters: the shipped ones are their own, beside one for a class of the user's."""

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.algorithms.by_path import find
from headrace.algorithms.checked import Checked
from headrace.algorithms.filters.base import RowFilter
from headrace.algorithms.filters.overlong import Overlong
from headrace.algorithms.filters.variance import ZeroVariance


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFilterOptions(Checked):
    """A class of yours with the methods of `headrace.algorithms.filters.base.RowFilter`."""

    kind: Literal["python"] = "python"
    path: str
    """Where it is: `module:Class`, or `path/to/file.py:Class`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""


FilterOptions = ZeroVariance | Overlong | PythonFilterOptions


def build_filter(options: FilterOptions) -> RowFilter:
    """The filter that `options` name.

    Raises ValueError for a user's class that is not there, ImportError where its module does not import.
    """
    if isinstance(options, PythonFilterOptions):
        return find(options.path, key="filter.path", what="class")(**options.options)
    return options
