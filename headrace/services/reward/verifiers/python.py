"""A user's function, `function(response, example, **columns)`, found by its import path or file."""

from collections.abc import Callable, Mapping
from typing import Any

from headrace.algorithms.by_path import find
from headrace.services.options import PythonVerifier
from headrace.services.verdicts.errors import VerifierUnusable
from headrace.services.verdicts.verdict import Verdict, judge


class PythonFunction:
    """Its return value is read by `judge`: a number, a dict with `reward` and parts, or None for invalid."""

    def __init__(self, options: PythonVerifier) -> None:
        self._function = _find(options.function)

    def __call__(self, response: str, example: Mapping[str, Any], **columns: Any) -> Verdict:
        return judge(self._function(response, dict(example), **columns))


def _find(path: str) -> Callable[[str, dict[str, Any]], Any]:
    try:
        return find(path, key="verifier.function", what="function")
    except (ValueError, ImportError) as error:
        raise VerifierUnusable(str(error)) from error
