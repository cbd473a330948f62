"""The YAML files that come with Headrace: whole dataflows, and fragments for other dataflows to include."""

from pathlib import Path

import headrace
from headrace.dataflow.language.problems import GraphError, Problem, listing, suggestion

RESOLVED_GRAPH = "graph.yaml"
"""Name of the graph in a run directory."""


def find(target: str) -> Path:
    """The YAML file that a path, a run directory or a shipped name stands for. Raises GraphError."""
    path = Path(target)
    if path.is_dir():
        path = path / RESOLVED_GRAPH
    if path.is_file():
        return path
    known = shipped()
    if target in known:
        return known[target]
    problem = Problem(
        path=(),
        place=target,
        wrong="there is no such file, run directory or shipped dataflow",
        allowed=listing(known),
        way_out=suggestion(target, known, otherwise="give the path of a YAML file or a shipped name"),
    )
    raise GraphError([problem])


def shipped() -> dict[str, Path]:
    """The whole dataflows, by name: those of the package, or of its repository."""
    return {path.stem: path for path in sorted(configs().glob("*.yaml"))}


def fragments() -> dict[str, Path]:
    """The parts of dataflows, by the name that an `include` gives them, e.g. "fragments/copy_task"."""
    return {f"fragments/{path.stem}": path for path in sorted(configs().glob("fragments/*.yaml"))}


def configs() -> Path:
    """The folder of what is shipped."""
    package = Path(headrace.__file__).parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"
