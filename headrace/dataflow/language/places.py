"""Where each value of a graph was written: a line of a file, or an override of the command line."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

import yaml

from headrace.dataflow.language.problems import Path, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Lines (from 1) of a file's keys, and the overrides put over them."""

    file: str
    lines: dict[Path, int] = field(repr=False)
    overrides: dict[Path, str] = field(default_factory=dict)

    def locate(self, problems: Iterable[Problem]) -> list[Problem]:
        """The problems with their places filled in, in the order of the file."""
        located = [problem if problem.place else self._with_place(problem) for problem in problems]
        return sorted(located, key=lambda problem: self._line(problem.path))

    def _with_place(self, problem: Problem) -> Problem:
        return dataclasses.replace(problem, place=self._place(problem.path))

    def _place(self, path: Path) -> str:
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.overrides:
                return f"override {self.overrides[path[:depth]]}"
            if path[:depth] in self.lines:
                return f"{self.file}:{self.lines[path[:depth]]}"
        return self.file

    def _line(self, path: Path) -> int:
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), 0)


def lines_of(node: yaml.Node | None, path: Path = ()) -> dict[Path, int]:
    """The line of every key below a composed YAML node."""
    lines: dict[Path, int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            lines |= {below: key.start_mark.line + 1} | lines_of(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            below = (*path, str(index))
            lines |= {below: value.start_mark.line + 1} | lines_of(value, below)
    return lines
