"""Options of the filters: the shipped ones are their own, beside one for a class of the user's."""

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.algorithms.by_path import ClassPath, find
from headrace.algorithms.checked import Checked
from headrace.algorithms.filters.base import RowFilter
from headrace.algorithms.filters.chain import Chain
from headrace.algorithms.filters.overlong import Overlong
from headrace.algorithms.filters.retokenised import Retokenised
from headrace.algorithms.filters.variance import ZeroVariance


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFilterOptions(Checked):
    """A class of yours with the methods of `headrace.algorithms.filters.base.RowFilter`."""

    kind: Literal["python"] = "python"
    path: ClassPath
    """Where it is: `module:Class`, or `path/to/file.py:Class`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions(Checked):
    """Several filters; a group or an answer that more than one leaves out has the first one's reason."""

    kind: Literal["chain"] = "chain"
    filters: tuple[ZeroVariance | Overlong | Retokenised | PythonFilterOptions, ...]
    """In order."""


FilterOptions = ZeroVariance | Overlong | Retokenised | PythonFilterOptions | ChainOptions


def build_filter(options: FilterOptions) -> RowFilter:
    """The filter that `options` name.

    Raises ValueError for a user's class that is not there, ImportError where its module does not import.
    """
    if isinstance(options, ChainOptions):
        return Chain([build_filter(each) for each in options.filters])
    if isinstance(options, PythonFilterOptions):
        return find(options.path, key="filter.path", what="class")(**options.options)
    return options
