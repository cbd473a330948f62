"""A user's function, `function(response: str, example: dict)`, found by its import path or file."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.services.options import PythonVerifier
from headrace.services.reward.errors import VerifierUnusable
from headrace.services.reward.verdict import Verdict, judge


class PythonFunction:
    """Its return value is read by `judge`: a number, a dict with `reward` and parts, or None for invalid."""

    def __init__(self, options: PythonVerifier) -> None:
        self._function = _find(options.function)

    def __call__(self, response: str, example: Mapping[str, Any]) -> Verdict:
        return judge(self._function(response, dict(example)))


def _find(path: str) -> Callable[[str, dict[str, Any]], Any]:
    place, _, name = path.rpartition(":")
    if not place or not name.isidentifier():
        raise VerifierUnusable(
            f"verifier.function is {path!r}; it must be `module:function` or `path/to/file.py:function`"
        )
    module = _from_file(Path(place)) if place.endswith(".py") else _import(place)
    function = getattr(module, name, None)
    if not callable(function):
        functions = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise VerifierUnusable(f"{place} has no function {name!r}; it has {', '.join(functions) or 'none'}")
    return function


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise VerifierUnusable(f"verifier.function: cannot import {name!r}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    """The file as a module that can import its neighbours, as it could when run as a script."""
    if not path.is_file():
        raise VerifierUnusable(f"verifier.function: there is no file {path.absolute()}")
    spec = importlib.util.spec_from_file_location(f"headrace_verifier_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise VerifierUnusable(f"verifier.function: {path.absolute()} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.absolute().parent))
    spec.loader.exec_module(module)
    return module
