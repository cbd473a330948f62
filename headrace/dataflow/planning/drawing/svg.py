"""A graph as SVG: one file without scripts or fonts of its own, light or dark as the reader prefers.

Hovering over an edge shows the columns that it carries; over a box, what it does and what runs within it.
"""

from collections.abc import Iterator
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.drawing.layout import (
    CHIP,
    CHIP_HEIGHT,
    LEADING,
    PADDING,
    TEXT,
    TITLE,
    TITLE_HEIGHT,
    layout,
)
from headrace.dataflow.planning.drawing.lettering import text_width
from headrace.dataflow.planning.drawing.picture import picture
from headrace.dataflow.planning.drawing.shapes import Band, Card, Curve, Drawing, Line, Point
from headrace.dataflow.planning.drawing.weights import LABEL, said_of

CORNER = 9.0
"""Radius of a turn on the way of weights."""

COLOURS = {
    "source": "made",
    "branch": "made",
    "join": "made",
    "rollout": "asked",
    "trainer": "learned",
    "eval": "kept",
    "sink": "kept",
}
"""Classes of kinds; whatever else reads rows and writes columns is `scored`."""

STYLE = f"""
  svg {{ --page: #ffffff; --band: #f3f5f8; --edge: #dfe3ea; --card: #ffffff; --ink: #1d2433; --soft: #5b6578;
    --flow: #8a94a6; --weights: #7c5cd6;
    --made: #2f8f6b; --asked: #2f6fd0; --scored: #b9770e; --learned: #7c5cd6; --kept: #64748b;
    font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }}
  @media (prefers-color-scheme: dark) {{
    svg {{ --page: #12161e; --band: #1a202b; --edge: #2c3442; --card: #222a37;
      --ink: #e8ecf3; --soft: #a3adbf; --flow: #7b879b; --weights: #a78bfa;
      --made: #4fc39a; --asked: #6aa5f8; --scored: #e0a63f; --learned: #a78bfa; --kept: #94a3b8 }} }}
  .page {{ fill: var(--page) }}
  .band {{ fill: var(--band); stroke: var(--edge) }}
  .card {{ fill: var(--card); stroke: var(--edge) }}
  .lane, .name {{ font-size: {TITLE}px; font-weight: 600; fill: var(--ink) }}
  .text {{ font-size: {TEXT}px; fill: var(--soft) }}
  .chip {{ fill: var(--band); stroke: var(--edge) }}
  .inner {{ font-size: {CHIP}px; fill: var(--ink) }}
  .flow {{ fill: none; stroke: var(--flow); stroke-width: 1.5 }}
  .weights {{ fill: none; stroke: var(--weights); stroke-width: 1.5; stroke-dasharray: 5 4 }}
  .said {{ font-size: {LABEL}px; fill: var(--weights); text-anchor: middle }}
  .over {{ fill: none; stroke: transparent; stroke-width: 12 }}
  .made {{ fill: var(--made) }} .asked {{ fill: var(--asked) }} .scored {{ fill: var(--scored) }}
  .learned {{ fill: var(--learned) }} .kept {{ fill: var(--kept) }}
"""


def draw_svg(spec: GraphSpec) -> str:
    """The graph as an SVG document; for a graph whose structure has no fault."""
    drawing = layout(picture(spec))
    return "\n".join(_document(spec.name, drawing)) + "\n"


def _document(name: str, drawing: Drawing) -> Iterator[str]:
    size = f'width="{drawing.width:.0f}" height="{drawing.height:.0f}"'
    view = f'viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img">'
    yield f"<title>{escape(name)}</title>"
    yield f"<style>{STYLE}</style>"
    yield "<defs>"
    yield from (_arrow(name) for name in ("flow", "weights"))
    yield "</defs>"
    yield '<rect class="page" width="100%" height="100%" rx="12"/>'
    for band in drawing.bands:
        yield from _band(band)
    for card in drawing.cards:
        yield from _card(card)
    yield from (_curve(curve) for curve in drawing.curves)
    for line in drawing.lines:
        yield from _weights(line)
    yield "</svg>"


def _arrow(name: str) -> str:
    return (
        f'<marker id="{name}-end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" '
        f'style="fill: var(--{name})"/></marker>'
    )


def _band(band: Band) -> Iterator[str]:
    if not band.name:
        return
    rect = band.rect
    yield f'<rect class="band" {_at(rect.x, rect.y, rect.width, rect.height)} rx="10"/>'
    y = rect.y + PADDING + TITLE
    yield f'<text class="lane" x="{rect.x + PADDING:.1f}" y="{y:.1f}">{escape(band.name)}</text>'
    for line in band.lines[1:]:
        y += LEADING
        yield f'<text class="text" x="{rect.x + PADDING:.1f}" y="{y:.1f}">{escape(line)}</text>'


def _card(card: Card) -> Iterator[str]:
    rect, box = card.rect, card.box
    yield f"<g data-node={quoteattr(box.name)}><title>{escape(_told(card))}</title>"
    if box.replicas > 1:
        yield f'<rect class="card" {_at(rect.x + 3, rect.y + 3, rect.width, rect.height)} rx="8"/>'
    yield f'<rect class="card" {_at(rect.x, rect.y, rect.width, rect.height)} rx="8"/>'
    colour = COLOURS.get(box.kind, "scored")
    yield f'<rect class="{colour}" {_at(rect.x, rect.y + 8, 3.0, rect.height - 16)} rx="1.5"/>'
    x, y = rect.x + PADDING, rect.y + PADDING - 2.0
    for name in box.fused:
        room = text_width(f"ƒ {name}", CHIP) + PADDING
        yield f'<rect class="chip" {_at(x, y, room, CHIP_HEIGHT - 5)} rx="9"/>'
        yield f'<text class="inner" x="{x + PADDING / 2:.1f}" y="{y + 13.5:.1f}">ƒ {escape(name)}</text>'
        y += CHIP_HEIGHT
    yield f'<text class="name" x="{x:.1f}" y="{y + TITLE - 1:.1f}">{escape(box.name)}</text>'
    y += TITLE_HEIGHT
    for line in card.lines:
        yield f'<text class="text" x="{x:.1f}" y="{y + TEXT:.1f}">{escape(line)}</text>'
        y += LEADING
    yield "</g>"


def _told(card: Card) -> str:
    within = f"\nwithin it: {', '.join(card.box.fused)}" if card.box.fused else ""
    return f"{card.box.name}: {card.box.text}{within}"


def _curve(curve: Curve) -> str:
    flow = curve.flow
    carried = ", ".join(flow.columns) or "nothing: the one waits for the other"
    path = _bending(curve.points)
    told = f"{flow.source} → {flow.target}: {carried}"
    return (
        f'<g><title>{escape(told)}</title><path class="over" d="{path}"/>'
        f'<path class="flow" d="{path}" marker-end="url(#flow-end)"/></g>'
    )


def _bending(points: tuple[Point, ...]) -> str:
    """Straight to every second point, bent with upright ends to those between."""
    x, y = points[0]
    steps = [f"M{x:.1f} {y:.1f}"]
    for number, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        middle = (y0 + y1) / 2
        steps.append(
            f"L{x1:.1f} {y1:.1f}"
            if number % 2 == 0
            else f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        )
    return " ".join(steps)


def _weights(line: Line) -> Iterator[str]:
    supply = line.supply
    told = f"{supply.trainer} → {supply.reader}: {said_of(supply)}"
    path = _turning(line.points)
    yield (
        f'<g><title>{escape(told)}</title><path class="over" d="{path}"/>'
        f'<path class="weights" d="{path}" marker-end="url(#weights-end)"/>'
    )
    if line.label is not None:
        x, y = line.label[0] - 5.0, line.label[1]
        turned = f'x="{x:.1f}" y="{y:.1f}" transform="rotate(-90 {x:.1f} {y:.1f})"'
        yield f'<text class="said" {turned}>{escape(said_of(supply))}</text>'
    yield "</g>"


def _turning(points: tuple[Point, ...]) -> str:
    """Straight legs with rounded corners."""
    x, y = points[0]
    steps = [f"M{x:.1f} {y:.1f}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        (x0, y0), (x1, y1) = _towards(corner, before), _towards(corner, after)
        steps.append(f"L{x0:.1f} {y0:.1f} Q{corner[0]:.1f} {corner[1]:.1f} {x1:.1f} {y1:.1f}")
    return " ".join([*steps, f"L{points[-1][0]:.1f} {points[-1][1]:.1f}"])


def _towards(corner: Point, other: Point) -> Point:
    """The point where a corner's rounding begins on the leg to another."""
    length = abs(corner[0] - other[0]) + abs(corner[1] - other[1])
    share = min(CORNER, length / 2) / length if length else 0.0
    return corner[0] + (other[0] - corner[0]) * share, corner[1] + (other[1] - corner[1]) * share


def _at(x: float, y: float, width: float, height: float) -> str:
    return f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
