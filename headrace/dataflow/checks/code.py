"""Whether code of a user's own is where a graph says, without importing it."""

from collections.abc import Iterator
from pathlib import Path as FilePath

from headrace.dataflow.language.problems import Path, Problem
from headrace.services.options import OWN_CLASSES


def check_own(options: object, path: Path) -> Iterator[Problem]:
    """`options` stand at `path`; those that name no class of the user's pass."""
    if isinstance(options, OWN_CLASSES):
        yield from check_code(options.path, (*path, "path"), "class")


def check_code(written: str, path: Path, what: str) -> Iterator[Problem]:
    """`written` is `module:name` or `path/to/file.py:name`; `what` the name is of, e.g. "function"."""
    place, colon, name = written.rpartition(":")
    if not colon or not place or not name.isidentifier():
        yield Problem(
            path=path,
            wrong=f"got '{written}'",
            allowed=f"module:{what}, or path/to/file.py:{what}",
            way_out=f"write the {what} after a colon",
        )
    elif place.endswith(".py") and not FilePath(place).is_file():
        yield no_file(place, path)


def no_file(written: str, path: Path) -> Problem:
    return Problem(
        path=path,
        wrong=f"there is no file '{written}'",
        way_out="give a path from the working directory, or an absolute one",
    )
