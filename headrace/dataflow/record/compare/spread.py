"""Values of several runs as one, with how far they lie apart. Pure."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.dataflow.record.compare.runs import Moments

PLACES = 200
"""On the axis of time at which curves are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of `n` values."""

    mean: float
    std: float | None
    """Of the sample, with n - 1; None for one value."""
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """None where nothing is known."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        mean = math.fsum(known) / len(known)
        squares = math.fsum((value - mean) ** 2 for value in known)
        return cls(
            mean=mean, std=math.sqrt(squares / (len(known) - 1)) if len(known) > 1 else None, n=len(known)
        )


Line = list[tuple[float, Spread]]


def by_step(runs: Sequence[Moments]) -> Line:
    """At each step, over the runs that have it."""
    found: dict[int, list[float]] = {}
    for moments in runs:
        for step, _, value in moments:
            found.setdefault(step, []).append(value)
    return [(float(step), spread) for step in sorted(found) if (spread := Spread.of(found[step])) is not None]


def by_seconds(runs: Sequence[Moments], places: int = PLACES) -> Line:
    """At moments evenly spaced from when all have a value until the first ends: each run's last by then."""
    first = max(moments[0][1] for moments in runs)
    last = min(moments[-1][1] for moments in runs)
    if last <= first:
        return []
    line: Line = []
    for place in range(places):
        at = first + (last - first) * place / (places - 1)
        if (spread := Spread.of(_until(moments, at) for moments in runs)) is not None:
            line.append((at, spread))
    return line


def _until(moments: Moments, at: float) -> float:
    place = bisect_right(moments, at, key=lambda moment: moment[1])
    return moments[max(place - 1, 0)][2]
