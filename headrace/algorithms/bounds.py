"""Bounds of the numbers that a user may set: written once in the annotation, refused wherever broken.

The dataflow checks them before launch with the place in the YAML; `check_bounds` does it for Python callers.
"""

import math
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Bounds of a number, checked before launch; None leaves a side open, infinity needs `infinite`."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    infinite: bool = False

    def holds(self, value: float) -> bool:
        return (
            (self.infinite or math.isfinite(value))
            and (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    def __str__(self) -> str:
        bounds = (("at least", self.ge), ("above", self.gt), ("at most", self.le), ("below", self.lt))
        text = " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
        return f"{text}, or inf" if self.infinite else text


Count = Annotated[int, Range(ge=1)]
Natural = Annotated[int, Range(ge=0)]
Positive = Annotated[float, Range(gt=0)]
PositiveOrInf = Annotated[float, Range(gt=0, infinite=True)]
NonNegative = Annotated[float, Range(ge=0)]
Share = Annotated[float, Range(ge=0, le=1)]
PositiveShare = Annotated[float, Range(gt=0, le=1)]
Decay = Annotated[float, Range(ge=0, lt=1)]


def check_bounds(carrier: Any) -> None:
    """Refuses a dataclass whose numbers or names are not those that its annotations allow.

    Raises ValueError naming the field, the value got and the values allowed.
    """
    hints = _hints(type(carrier))
    for member in fields(carrier):
        value = getattr(carrier, member.name)
        if (allowed := _refusal(value, hints[member.name])) is not None:
            raise ValueError(f"{member.name} is {value!r}; it must be {allowed}")


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _refusal(value: Any, hint: Any) -> str | None:
    """What `hint` allows, where `value` is something else; None for a hint without bounds."""
    if get_origin(hint) is Annotated and isinstance(bounds := get_args(hint)[1], Range):
        return None if isinstance(value, int | float) and bounds.holds(value) else str(bounds)
    if isinstance(hint, type) and is_dataclass(hint):
        return None if isinstance(value, hint) else hint.__name__
    if get_origin(hint) in (Union, UnionType):
        if value is None and NoneType in get_args(hint):
            return None
        refusals = [_refusal(value, member) for member in get_args(hint) if member is not NoneType]
        return " or ".join(filter(None, refusals)) if all(refusals) else None
    if get_origin(hint) is Literal:
        return None if value in get_args(hint) else f"one of {', '.join(map(str, get_args(hint)))}"
    return None
