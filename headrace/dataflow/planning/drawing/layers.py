"""Which row of a picture each box stands in, and in what order within it.

Every edge leads from a row to the next: one that spans several gets a place to pass through in each row
between. Within a row lanes follow each other, and places of a lane are ordered to keep crossings few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.dataflow.planning.drawing.picture import Picture

SWEEPS = 4
"""Times that rows are ordered by what they lead to and come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A box in its row, or a place that an edge passes through, which has no name of its own."""

    name: str
    lane: str
    is_box: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    rows: tuple[tuple[Place, ...], ...]
    """From left to right; lane after lane."""
    ways: tuple[tuple[str, ...], ...]
    """For each flow of the picture the places from its source to its target."""


def layers(picture: Picture) -> Layers:
    level = _levels(picture)
    places = {box.name: Place(name=box.name, lane=box.lane, is_box=True) for box in picture.boxes}
    rows: list[list[Place]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for box in picture.boxes:
        rows[level[box.name]].append(places[box.name])
    ways: list[tuple[str, ...]] = []
    for number, flow in enumerate(picture.flows):
        between = range(level[flow.source] + 1, level[flow.target])
        passed = [
            Place(name=f"{number}@{row}", lane=places[flow.source].lane, is_box=False) for row in between
        ]
        for row, place in zip(between, passed, strict=True):
            rows[row].append(place)
        ways.append((flow.source, *(place.name for place in passed), flow.target))
    return Layers(rows=_ordered(rows, tuple(picture.lanes), ways), ways=tuple(ways))


def _levels(picture: Picture) -> dict[str, int]:
    """The longest way to each box; what weights alone lead to stands beside its trainer."""
    level: dict[str, int] = {}
    above: dict[str, list[str]] = {box.name: [] for box in picture.boxes}
    for flow in picture.flows:
        above[flow.target].append(flow.source)
    for box in picture.boxes:
        level[box.name] = max((level[source] + 1 for source in above[box.name]), default=0)
    joined = {name for flow in picture.flows for name in (flow.source, flow.target)}
    for supply in picture.supplies:
        if supply.reader not in joined:
            level[supply.reader] = level[supply.trainer]
    return level


def _ordered(
    rows: list[list[Place]], lanes: Sequence[str], ways: Sequence[tuple[str, ...]]
) -> tuple[tuple[Place, ...], ...]:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for way in ways:
        for upper, lower in pairwise(way):
            below.setdefault(upper, []).append(lower)
            above.setdefault(lower, []).append(upper)
    for row in rows:
        row.sort(key=lambda place: lanes.index(place.lane))
    for _ in range(SWEEPS):
        for previous, row in pairwise(rows):
            _sort(row, lanes, _positions(previous), above)
        for following, row in pairwise(reversed(rows)):
            _sort(row, lanes, _positions(following), below)
    return tuple(map(tuple, rows))


def _positions(row: Sequence[Place]) -> dict[str, int]:
    return {place.name: number for number, place in enumerate(row)}


def _sort(
    row: list[Place], lanes: Sequence[str], beside: Mapping[str, int], neighbours: Mapping[str, list[str]]
) -> None:
    """By lane, then by the mean of the neighbours; what has none keeps its number."""
    own = _positions(row)

    def key(place: Place) -> tuple[int, float, int]:
        at = [beside[name] for name in neighbours.get(place.name, ()) if name in beside]
        mean = sum(at) / len(at) if at else float(own[place.name])
        return lanes.index(place.lane), mean, own[place.name]

    row.sort(key=key)
