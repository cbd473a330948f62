"""Where the places of a picture stand across: lanes side by side, what is joined in line where it can be."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.dataflow.planning.drawing.layers import Layers
from headrace.dataflow.planning.drawing.spread import spread

GAP, PASSAGE = 26.0, 8.0
"""Between neighbours of a row; width of the place of an edge that passes through."""
SWEEPS = 40
STRAIGHT = 8
"""How much more a bend weighs between two passages than at a box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Across:
    """Of a lane's places: centres, counted from the left end of what stands in it."""

    centres: Mapping[str, float]
    width: float


def across(found: Layers, lane: str, card: float) -> Across:
    """The places of one lane, where cards are that wide."""
    rows = [[place for place in row if place.lane == lane] for row in found.rows]
    widths = {place.name: card if place.is_box else PASSAGE for row in rows for place in row}
    joined = _joined(found, widths)
    named = [[place.name for place in row] for row in rows if row]
    x = dict.fromkeys(widths, 0.0)
    for sweep in range(SWEEPS):
        for row in named if sweep % 2 == 0 else reversed(named):
            wishes = [_mean([x[other] for other in joined[name]], x[name]) for name in row]
            x |= zip(row, spread(wishes, [widths[name] for name in row], GAP), strict=True)
    _straighten(found, named, widths, x)
    left = min((x[name] - widths[name] / 2 for name in x), default=0.0)
    right = max((x[name] + widths[name] / 2 for name in x), default=0.0)
    return Across(centres={name: at - left for name, at in x.items()}, width=right - left)


def _straighten(
    found: Layers, rows: Sequence[Sequence[str]], widths: Mapping[str, float], x: dict[str, float]
) -> None:
    """Puts all places that an edge passes through in line, where their neighbours leave room."""
    room: dict[str, tuple[float, float]] = {}
    for way in found.ways:
        passed = [name for name in way[1:-1] if name in widths]
        if not passed:
            continue
        for row in rows:
            room |= {name: _room(row, number, widths, x) for number, name in enumerate(row) if name in passed}
        low, high = max(room[name][0] for name in passed), min(room[name][1] for name in passed)
        if low <= high:
            mean = sum(x[name] for name in passed) / len(passed)
            x |= dict.fromkeys(passed, min(max(mean, low), high))


def _room(
    row: Sequence[str], number: int, widths: Mapping[str, float], x: Mapping[str, float]
) -> tuple[float, float]:
    """How far a place of a row may go to either side."""
    own = widths[row[number]] / 2 + GAP / 2
    low = -math.inf if number == 0 else x[row[number - 1]] + widths[row[number - 1]] / 2 + own
    high = math.inf if number == len(row) - 1 else x[row[number + 1]] - widths[row[number + 1]] / 2 - own
    return low, high


def _joined(found: Layers, among: Mapping[str, float]) -> dict[str, list[str]]:
    """What each place would like to stand in line with, as often as that weighs."""
    joined: dict[str, list[str]] = {name: [] for name in among}
    for way in found.ways:
        for upper, lower in pairwise(way):
            if upper in among and lower in among:
                times = STRAIGHT if among[upper] == among[lower] == PASSAGE else 1
                joined[upper] += [lower] * times
                joined[lower] += [upper] * times
    return joined


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
