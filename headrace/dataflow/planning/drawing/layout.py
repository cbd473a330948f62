"""From a picture to places on paper: lanes side by side, rows below each other.

No two boxes touch, and flows meet no box but their ends: they bend in the space between rows alone, where
no box stands, and pass through a row in a place of their own. Weights go up beside the lane they come from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.dataflow.planning.drawing.lanes import across
from headrace.dataflow.planning.drawing.layers import Layers, layers
from headrace.dataflow.planning.drawing.lettering import text_width, widest_word, wrapped
from headrace.dataflow.planning.drawing.picture import Box, Picture
from headrace.dataflow.planning.drawing.shapes import Band, Card, Curve, Drawing, Point, Rect
from headrace.dataflow.planning.drawing.weights import TRACK, lines, tracks

TITLE, TEXT, CHIP = 14.0, 11.5, 11.0
"""Sizes of the type: names, what a box does, transforms within it."""
TITLE_HEIGHT, CHIP_HEIGHT, LEADING, PADDING = 20.0, 24.0, 15.0, 12.0
NARROWEST, WIDEST = 140.0, 200.0
"""Of a card; a single word may make it wider."""
BETWEEN_ROWS, BETWEEN_LANES, MARGIN, SIDE = 44.0, 14.0, 14.0, 20.0
ARROW = 8.0
"""How far an edge goes straight before it ends."""
PORTS = 26.0
"""Between the ends of edges on a card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    top: float
    bottom: float


def layout(picture: Picture, *, between_rows: float = BETWEEN_ROWS, side: float = SIDE) -> Drawing:
    found, width = layers(picture), _card_width(picture)
    tracked = tracks(picture)
    placed = {lane: across(found, lane, width) for lane in picture.lanes}
    said = {lane: _heading(lane, text, placed[lane].width) for lane, text in picture.lanes.items()}
    top = MARGIN + LEADING * max(map(len, said.values()), default=0) + BETWEEN_ROWS
    boxes = {box.name: box for box in picture.boxes}
    rows = _rows(found, boxes, width, top, between_rows)
    bottom = (rows[-1].bottom if rows else top) + side
    bands: list[Band] = []
    x: dict[str, float] = {}
    left = MARGIN
    for lane, lines_said in said.items():
        room = placed[lane].width + 2 * side + TRACK * len(tracked.get(lane, ()))
        x |= {name: left + side + at for name, at in placed[lane].centres.items()}
        rect = Rect(x=left, y=MARGIN, width=room, height=bottom - MARGIN)
        bands.append(Band(name=lane, lines=lines_said, rect=rect))
        left += room + BETWEEN_LANES
    cards = _cards(found, boxes, rows, x, width)
    return Drawing(
        width=left - BETWEEN_LANES + MARGIN,
        height=bottom + MARGIN,
        bands=tuple(bands),
        cards=tuple(cards.values()),
        curves=_curves(picture, found, cards, rows, x),
        lines=lines(picture, cards, {band.name: band.rect for band in bands}, tracked),
    )


def _card_width(picture: Picture) -> float:
    inner = [text_width(box.name, TITLE, bold=True) for box in picture.boxes]
    inner += [widest_word(box.text, TEXT) for box in picture.boxes]
    inner += [text_width(f"ƒ {name}", CHIP) + PADDING for box in picture.boxes for name in box.fused]
    parts = [part for box in picture.boxes for part in box.text.split(", ")]
    longest = max((text_width(part, TEXT) for part in parts), default=0.0)
    return 2 * PADDING + max([min(longest, WIDEST - 2 * PADDING), NARROWEST - 2 * PADDING, *inner])


def _lines(box: Box, width: float) -> tuple[str, ...]:
    return _parts(box.text, width - 2 * PADDING)


def _parts(text: str, width: float) -> tuple[str, ...]:
    """A line for each part between commas, or several where it is long."""
    return tuple(line for part in text.split(", ") for line in wrapped(part, TEXT, width))


def _height(box: Box, width: float) -> float:
    lettered = TITLE_HEIGHT + LEADING * len(_lines(box, width)) + CHIP_HEIGHT * len(box.fused)
    return lettered + 2 * PADDING - 4.0


def _heading(lane: str, text: str, width: float) -> tuple[str, ...]:
    return (lane, *_parts(text, max(width, NARROWEST)))


def _rows(found: Layers, boxes: Mapping[str, Box], width: float, top: float, between: float) -> list[Row]:
    rows: list[Row] = []
    for row in found.rows:
        bottom = top + max((_height(boxes[place.name], width) for place in row if place.is_box), default=0.0)
        rows.append(Row(top=top, bottom=bottom))
        top = bottom + between
    return rows


def _cards(
    found: Layers, boxes: Mapping[str, Box], rows: Sequence[Row], x: Mapping[str, float], width: float
) -> dict[str, Card]:
    cards: dict[str, Card] = {}
    for row, places in zip(rows, found.rows, strict=True):
        for place in places:
            if place.is_box:
                box = boxes[place.name]
                left = x[place.name] - width / 2
                rect = Rect(x=left, y=row.top, width=width, height=_height(box, width))
                cards[place.name] = Card(box=box, rect=rect, lines=_lines(box, width))
    return cards


def _curves(
    picture: Picture,
    found: Layers,
    cards: Mapping[str, Card],
    rows: Sequence[Row],
    x: Mapping[str, float],
) -> tuple[Curve, ...]:
    row_of = {place.name: row for row, places in zip(rows, found.rows, strict=True) for place in places}
    leaving = _ports([(way[0], way[1], number) for number, way in enumerate(found.ways)], cards, x)
    entering = _ports([(way[-1], way[-2], number) for number, way in enumerate(found.ways)], cards, x)
    curves: list[Curve] = []
    for number, (flow, way) in enumerate(zip(picture.flows, found.ways, strict=True)):
        source, target = cards[flow.source].rect, cards[flow.target].rect
        points: list[Point] = [
            (leaving[number], source.bottom),
            (leaving[number], row_of[flow.source].bottom),
        ]
        for name in way[1:-1]:
            points += [(x[name], row_of[name].top), (x[name], row_of[name].bottom)]
        points += [(entering[number], target.y - ARROW), (entering[number], target.y)]
        curves.append(Curve(flow=flow, points=tuple(points)))
    return tuple(curves)


def _ports(
    ends: Sequence[tuple[str, str, int]], cards: Mapping[str, Card], x: Mapping[str, float]
) -> dict[int, float]:
    """Where each flow meets its card across, given (card, next place, flow): in the order of what is next."""
    by_card: dict[str, list[tuple[float, int]]] = {}
    for card, beside, number in ends:
        by_card.setdefault(card, []).append((x[beside], number))
    at: dict[int, float] = {}
    for card, meeting in by_card.items():
        step = min(PORTS, 0.8 * cards[card].rect.width / len(meeting))
        first = x[card] - step * (len(meeting) - 1) / 2
        at |= {number: first + step * place for place, (_, number) in enumerate(sorted(meeting))}
    return at
