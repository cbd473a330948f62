"""Options of an algorithm that stands in a user's own file."""

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.algorithms.by_path import ClassPath
from headrace.algorithms.options.base import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonOptions(Options):
    """A subclass of yours of `headrace.algorithms.base.Algorithm`."""

    kind: Literal["python"] = "python"
    path: ClassPath
    """Where it is: `module:Class`, or `path/to/file.py:Class`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""
    reads: tuple[str, ...] = ()
    """What its `needs()` returns: the file is not run before the launch."""

    def needs(self) -> tuple[str, ...]:
        return self.reads

    @property
    def compares_group(self) -> bool:
        return False
