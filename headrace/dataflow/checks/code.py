"""Whether code and data of a user's own are where a graph says, without importing any."""

from collections.abc import Iterator
from pathlib import Path as FilePath

from headrace.dataflow.language.fields import placed
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec


def check_places(spec: GraphSpec) -> Iterator[Problem]:
    """Files that are not there, wherever options name one."""
    for name, node in spec.nodes.items():
        for found in placed(node.options, ("nodes", name)):
            file = None if found.place.what in ("folder", "dataset") else found.place.file(found.value)
            if file is not None and not FilePath(file).is_file():
                yield no_file(file, found.path)


def no_file(written: str, path: Path) -> Problem:
    return Problem(
        path=path,
        wrong=f"there is no file '{written}'",
        way_out="give a path from the working directory, or an absolute one",
    )
