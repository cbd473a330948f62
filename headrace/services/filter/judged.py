"""What a user's function says of a row: pass, or the reason to drop it. Runs in a process of its own."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.algorithms.by_path import name_of
from headrace.services.functions import load

PASS = ""


def served(function: str, columns: Sequence[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What the process runs: from `row`, JSON by column, to `reason`, PASS where the row passes."""
    judge, name = load(function, columns), name_of(function)

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        return {"reason": reason(judge(**json.loads(question["row"])), name)}

    return answer


def reason(returned: Any, name: str) -> str:
    """What the function of that name means by what it returned; TypeError where it means nothing."""
    if isinstance(returned, str) and returned:
        return " ".join(returned.split())
    if isinstance(returned, bool | np.bool_):
        return PASS if returned else name
    raise TypeError(
        f"{name} returned {returned!r} ({type(returned).__name__}); allowed are True, False and the "
        "reason to drop the row, as text"
    )
