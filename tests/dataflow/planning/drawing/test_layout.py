"""The geometry of pictures: on every shipped dataflow, and on random graphs of boxes."""

from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataflow.language.parse import parse
from headrace.dataflow.planning.drawing.layout import PADDING, TEXT, TITLE, layout
from headrace.dataflow.planning.drawing.lettering import text_width
from headrace.dataflow.planning.drawing.picture import Box, Flow, Picture, Supply, picture
from headrace.dataflow.planning.drawing.shapes import Card, Drawing, Point, Rect

CONFIGS = sorted((Path(__file__).parents[4] / "configs").glob("*.yaml"))
PARTS = 12
"""Points that a leg of an edge is looked at."""
SLIVER = 1e-6
"""What rounding may take an end of an edge into its box."""


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    lanes = draw(st.integers(1, 3))
    number = draw(st.integers(1, 12))
    words = st.text("aMil _", min_size=1, max_size=40)
    boxes = tuple(
        Box(
            name=f"n{i}{'W' * draw(st.integers(0, 12))}",
            kind=draw(st.sampled_from(["source", "rollout", "reward", "trainer"])),
            text=draw(words),
            fused=tuple(f"f{k}" for k in range(draw(st.integers(0, 2)))),
            lane=f"lane{draw(st.integers(0, lanes - 1))}",
            replicas=draw(st.integers(1, 2)),
        )
        for i in range(number)
    )
    pairs = list(combinations(boxes, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=16)) if pairs else []
    supplied = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3)) if pairs else []
    return Picture(
        name="random",
        lanes={f"lane{i}": draw(words) for i in range(lanes)},
        boxes=boxes,
        flows=tuple(Flow(source=a.name, target=b.name, columns=()) for a, b in chosen),
        supplies=tuple(Supply(trainer=b.name, policy="p", reader=a.name) for a, b in supplied),
    )


@given(pictures())
@settings(max_examples=40, deadline=None)
def test_random_graphs_are_laid_out_without_an_overlap(shown: Picture) -> None:
    look_at(layout(shown), shown)


@pytest.mark.parametrize("path", CONFIGS, ids=[path.stem for path in CONFIGS])
def test_a_shipped_dataflow_is_laid_out_without_an_overlap(path: Path) -> None:
    shown = picture(parse(path.read_text(), file=path.name).spec)
    look_at(layout(shown), shown)


def look_at(drawing: Drawing, shown: Picture) -> None:
    assert [card.box.name for card in sorted(drawing.cards, key=lambda card: card.box.name)] == sorted(
        box.name for box in shown.boxes
    )
    page = Rect(x=0, y=0, width=drawing.width, height=drawing.height)
    bands = {band.name: band.rect for band in drawing.bands}
    for one, other in (*combinations(drawing.cards, 2), *combinations(drawing.bands, 2)):
        assert not one.rect.overlaps(other.rect)
    for card in drawing.cards:
        assert holds(bands[card.box.lane], card.rect) and holds(page, bands[card.box.lane])
        look_at_text(card)
    for curve in drawing.curves:
        ends = {curve.flow.source, curve.flow.target}
        for point in along_curve(curve.points):
            assert not any(inside(card.rect, point) for card in drawing.cards if card.box.name not in ends)
            assert inside(page, point)
    for line in drawing.lines:
        for point in along_line(line.points):
            assert not any(inside(card.rect, point) for card in drawing.cards)
            assert inside(page, point)


def look_at_text(card: Card) -> None:
    room = card.rect.width - 2 * PADDING + 1e-6
    assert text_width(card.box.name, TITLE, bold=True) <= room
    assert all(text_width(line, TEXT) <= room for line in card.lines)
    assert " ".join(card.lines).split() == card.box.text.replace(", ", " ").split()


def holds(outer: Rect, inner: Rect) -> bool:
    across = outer.x <= inner.x and inner.right <= outer.right
    return across and outer.y <= inner.y and inner.bottom <= outer.bottom


def inside(rect: Rect, point: Point) -> bool:
    x, y = point[0], point[1]
    return rect.x + SLIVER < x < rect.right - SLIVER and rect.y + SLIVER < y < rect.bottom - SLIVER


def along_line(points: tuple[Point, ...]) -> Iterator[Point]:
    for (x0, y0), (x1, y1) in pairwise(points):
        assert x0 == x1 or y0 == y1
        yield from ((x0 + (x1 - x0) * k / PARTS, y0 + (y1 - y0) * k / PARTS) for k in range(PARTS + 1))


def along_curve(points: tuple[Point, ...]) -> Iterator[Point]:
    """Bezier curves with upright ends on every second leg, as the SVG has them."""
    for number, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        for k in range(PARTS + 1):
            t = k / PARTS
            if number % 2 == 0:
                assert x0 == x1
                yield x0, y0 + (y1 - y0) * t
            else:
                bend = 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t)
                x = x0 * ((1 - t) ** 3 + bend[0]) + x1 * (t**3 + bend[1])
                yield x, y0 * (1 - t) ** 3 + (y0 + y1) / 2 * sum(bend) + y1 * t**3
