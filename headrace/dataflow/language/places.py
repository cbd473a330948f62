"""Where each value of a graph was written: a line of a file, or an override of the command line."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

import yaml

from headrace.dataflow.language.problems import Path, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a file, counted from 1."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The line of every key, of `file` or of a file that it includes, and the overrides put over them."""

    file: str
    lines: dict[Path, Line] = field(repr=False)
    overrides: dict[Path, str] = field(default_factory=dict)
    """As messages call them, e.g. "override steps=20"."""

    def locate(self, problems: Iterable[Problem]) -> list[Problem]:
        """The problems with their places filled in, in the order of the file, then of those it includes."""
        located = [problem if problem.place else self._with_place(problem) for problem in problems]
        return sorted(located, key=lambda problem: self._order(problem.path))

    def _with_place(self, problem: Problem) -> Problem:
        return dataclasses.replace(problem, place=self._place(problem.path))

    def _place(self, path: Path) -> str:
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.overrides:
                return self.overrides[path[:depth]]
            if path[:depth] in self.lines:
                return str(self.lines[path[:depth]])
        return self.file

    def _order(self, path: Path) -> tuple[bool, str, int]:
        for depth in range(len(path), 0, -1):
            if (line := self.lines.get(path[:depth])) is not None:
                return line.file != self.file, line.file, line.number
        return False, self.file, 0


def lines_of(node: yaml.Node | None, file: str, path: Path = ()) -> dict[Path, Line]:
    """The line of every key below a composed YAML node."""
    lines: dict[Path, Line] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            lines |= {below: Line(file=file, number=key.start_mark.line + 1)} | lines_of(value, file, below)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            below = (*path, str(index))
            lines |= {below: Line(file=file, number=value.start_mark.line + 1)} | lines_of(value, file, below)
    return lines
