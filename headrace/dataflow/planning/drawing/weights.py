"""The ways of weights: from a trainer up along a track beside its lane, and over to who reads them.

A box that others stand to the right of is left and reached through the space above its row.
"""

from collections.abc import Mapping
from itertools import pairwise

from headrace.dataflow.planning.drawing.lettering import text_width
from headrace.dataflow.planning.drawing.picture import Picture, Supply
from headrace.dataflow.planning.drawing.shapes import Card, Line, Point, Rect

TRACK = 22.0
"""Width of a track: its line and what is said of it."""
LABEL = 11.0
FROM_LANE = 12.0
"""From the last track to the lane's end."""
ABOVE = 15.0
"""How far above a row weights go across."""
INSET = 20.0
"""From the right end of a box, where its top is met."""

Tracks = Mapping[str, tuple[str, ...]]


def tracks(picture: Picture) -> Tracks:
    """By lane the trainers whose weights go up beside it, from the innermost track."""
    lane = {box.name: box.lane for box in picture.boxes}
    found: dict[str, dict[str, None]] = {}
    for supply in picture.supplies:
        found.setdefault(lane[supply.trainer], {})[supply.trainer] = None
    return {name: tuple(trainers) for name, trainers in found.items()}


def lines(
    picture: Picture, cards: Mapping[str, Card], lanes: Mapping[str, Rect], tracked: Tracks
) -> tuple[Line, ...]:
    made: list[Line] = []
    labelled: set[str] = set()
    for supply in picture.supplies:
        points = _way(supply, cards, lanes, tracked)
        label = None if supply.trainer in labelled else _label(supply, points)
        if label is not None:
            labelled.add(supply.trainer)
        made.append(Line(supply=supply, points=points, label=label))
    return tuple(made)


def said_of(supply: Supply) -> str:
    return f"weights of {supply.policy}"


def _way(
    supply: Supply, cards: Mapping[str, Card], lanes: Mapping[str, Rect], tracked: Tracks
) -> tuple[Point, ...]:
    trainer, reader = cards[supply.trainer], cards[supply.reader]
    trainers = tracked[trainer.box.lane]
    outward = len(trainers) - 1 - trainers.index(supply.trainer)
    x = lanes[trainer.box.lane].right - FROM_LANE - TRACK * outward
    points: list[Point] = _leaving(trainer, cards, x)
    if reader.box.lane == trainer.box.lane and _is_last(reader, cards):
        middle = reader.rect.y + reader.rect.height / 2
        return (*points, (x, middle), (reader.rect.right, middle))
    level, at = reader.rect.y - ABOVE, reader.rect.right - INSET
    return (*points, (x, level), (at, level), (at, reader.rect.y))


def _leaving(trainer: Card, cards: Mapping[str, Card], x: float) -> list[Point]:
    rect = trainer.rect
    if _is_last(trainer, cards):
        middle = rect.y + rect.height / 2
        return [(rect.right, middle), (x, middle)]
    level, at = rect.y - ABOVE / 2, rect.right - 2 * INSET
    return [(at, rect.y), (at, level), (x, level)]


def _is_last(card: Card, cards: Mapping[str, Card]) -> bool:
    """Whether nothing of its lane stands to the right of a card in its row."""
    return not any(
        other.box.lane == card.box.lane and other.rect.y == card.rect.y and other.rect.x > card.rect.x
        for other in cards.values()
    )


def _label(supply: Supply, points: tuple[Point, ...]) -> Point | None:
    """In the middle of the longest way up, where there is room for it."""
    upright = [(a, b) for a, b in pairwise(points) if a[0] == b[0]]
    (x, start), (_, end) = max(upright, key=lambda leg: abs(leg[0][1] - leg[1][1]))
    if abs(start - end) < text_width(said_of(supply), LABEL) + LABEL:
        return None
    return x, (start + end) / 2
