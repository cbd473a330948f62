"""What is wrong with a graph, as data: where, what was got, what is allowed, the way out.

Problems are collected and shown together; `GraphError` carries them all to the command line.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Path = tuple[str, ...]
"""Keys from the graph's root to a value, e.g. ("nodes", "learn", "prompts_per_step")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to mend. An `error` stops the launch, a `warning` is shown."""

    path: Path
    wrong: str
    """What is wrong, with the value got."""
    allowed: str = ""
    """The values that would do; empty where they cannot be listed."""
    way_out: str
    severity: Literal["error", "warning"] = "error"
    place: str = ""
    """Where it was written, e.g. "grpo.yaml:12"; empty for a graph built in Python."""

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.place, ".".join(self.path)) if part)
        allowed = f" (allowed: {self.allowed})" if self.allowed else ""
        warning = "warning: " if self.severity == "warning" else ""
        return f"{warning}{where}: {self.wrong}{allowed}; {self.way_out}"


class GraphError(Exception):
    """A graph that cannot be launched; `problems` says why, errors and warnings alike."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop a launch."""
    return [problem for problem in problems if problem.severity == "error"]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be; None if none is near."""
    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.5)
    of_its_letters = [each for each in close if sorted(each) == sorted(word)]
    of_no_others = [each for each in close if set(each) == set(word)]
    return next(iter([*of_its_letters, *of_no_others, *close]), None)


def suggestion(word: str, known: Iterable[str], *, otherwise: str) -> str:
    near = nearest(word, known)
    return f"did you mean '{near}'?" if near else otherwise


def listing(words: Iterable[str]) -> str:
    """Names in one line; "none" when there are none."""
    return ", ".join(words) or "none"


def show(value: Any) -> str:
    """A value as a message quotes it, with its type where that is the point."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text '{value}'" if len(value) <= 60 else f"the text '{value[:57]}...'"
    if isinstance(value, dict):
        return f"a mapping ({listing(map(str, value))})"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"{value:g}" if isinstance(value, float) else str(value)
