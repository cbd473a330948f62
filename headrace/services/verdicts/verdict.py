"""The three outcomes of scoring: a value with its parts, invalid with a reason, or a raised error to retry.

Invariant: a `Score` holds finite numbers only. Nothing that is not one becomes a number on the way.
"""

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.services.verdicts.errors import VerdictRefused

_ALLOWED = "allowed are a finite number, a dict with `reward` and other finite numbers, or None for invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """Named figures beside the value, such as `exact`."""

    def __post_init__(self) -> None:
        _finite(self.value, "reward")
        for name, part in self.parts.items():
            _finite(part, f"part {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """The answer has no value: it enters no mean and gets no credit."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason:
            raise VerdictRefused("an invalid verdict needs a reason; got an empty text")


Verdict = Score | Invalid


def judge(returned: Any) -> Verdict:
    """The verdict that a user's function means by what it returned.

    A number is a score, a dict one with parts, None is invalid. Raises VerdictRefused for all else.
    """
    if returned is None:
        return Invalid(reason="the verifier returned None")
    if isinstance(returned, Mapping):
        if "reward" not in returned or not all(isinstance(name, str) for name in returned):
            raise VerdictRefused(f"the verifier returned a dict with the keys {list(returned)}; {_ALLOWED}")
        figures = {name: _finite(value, name) for name, value in returned.items()}
        return Score(value=figures.pop("reward"), parts=figures)
    return Score(value=_finite(returned, "reward"))


def _finite(value: Any, name: str) -> float:
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise VerdictRefused(f"{name} is {value!r} ({type(value).__name__}); {_ALLOWED}")
