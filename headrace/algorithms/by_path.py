"""Paths that a user may set: of a class or function of the user's own, of data, and of a folder to write to.

A Python file is loaded as a module of its own that can import its neighbours, as it could when run as a
script.
"""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal


@dataclass(frozen=True, slots=True)
class Place:
    """Marks an option as a path, so that it is checked and made absolute wherever it stands."""

    what: Literal["class", "function", "file", "folder", "dataset"]

    def holds(self, value: str) -> bool:
        """Whether the text has the form of such a path."""
        place, _, name = value.rpartition(":")
        return self.is_data or bool(place and name.isidentifier())

    def file(self, value: str) -> str | None:
        """The file or folder that it names; None: a module."""
        place = value if self.is_data else value.rpartition(":")[0]
        return place if self.is_data or place.endswith(".py") else None

    @property
    def is_data(self) -> bool:
        """Whether it is no code."""
        return self.what in ("file", "folder", "dataset")

    def is_there(self, file: Path) -> bool:
        """Whether a file or folder is one that it may name and that is read."""
        return file.is_dir() if self.what == "dataset" else file.is_file()

    def __str__(self) -> str:
        name = self.what.title() if self.what == "class" else self.what
        if self.what == "dataset":
            return "a folder or a name"
        return "a path" if self.is_data else f"module:{name}, or path/to/file.py:{name}"


ClassPath = Annotated[str, Place("class")]
FunctionPath = Annotated[str, Place("function")]
FilePath = Annotated[str, Place("file")]
FolderPath = Annotated[str, Place("folder")]
"""Of one that is made where it is not there."""
DatasetPath = Annotated[str, Place("dataset")]
"""A folder that is there, or else the name of a data set."""


def name_of(path: str) -> str:
    """The name of the class or function at `path`."""
    return path.rpartition(":")[2]


_OF_A_FILE = "headrace_user_"


def is_of_a_file(module: str) -> bool:
    """Whether a module was loaded from a user's file: no other process can import it by its name."""
    return module.startswith(_OF_A_FILE)


def find(path: str, *, key: str, what: str) -> Any:
    """The callable that `path` names, `module:name` or `path/to/file.py:name`.

    `key` is where the path was written, `what` the kind of thing it should name, both for messages.

    Raises ValueError where there is no such file or name, ImportError where the module does not import.
    """
    place, _, name = path.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(f"{key} is {path!r}; it must be `module:{what}` or `path/to/file.py:{what}`")
    module = _from_file(Path(place), key) if place.endswith(".py") else _import(place, key)
    if not callable(found := getattr(module, name, None)):
        names = sorted(n for n, value in vars(module).items() if callable(value) and not n.startswith("_"))
        raise ValueError(f"{key}: {place} has no {what} {name!r}; it has {', '.join(names) or 'none'}")
    return found


def _import(name: str, key: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{key}: cannot import {name!r}: {error}") from error


def _from_file(path: Path, key: str) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"{key}: there is no file {path.absolute()}")
    spec = importlib.util.spec_from_file_location(f"{_OF_A_FILE}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{key}: {path.absolute()} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if (neighbours := str(path.absolute().parent)) not in sys.path:
        sys.path.insert(0, neighbours)
    spec.loader.exec_module(module)
    return module
