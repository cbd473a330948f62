"""Curves as inline SVG: no script, no outside host, colours from the page's style sheet.

Pure: points in, markup out. Every text that comes from outside is escaped here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 24
MAX_POINTS = 240
"""Points drawn of one curve; beyond, neighbours are averaged."""
COLOURS = 6
"""Of the page's style sheet, k0 to k5; further curves of a chart begin anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    label: str
    points: Points = field(repr=False)
    """(step, value), ascending by step; at least one."""
    spread: Sequence[float] = field(default=(), repr=False)
    """How far a band reaches to either side of each point; empty: no band."""
    colour: int | None = None
    """Its place among the colours; None: that in its chart."""

    def thinned(self) -> "Curve":
        widths = [(x, width) for (x, _), width in zip(self.points, self.spread, strict=False)]
        spread = [width for _, width in thinned(widths, MAX_POINTS)]
        return replace(self, points=thinned(self.points, MAX_POINTS), spread=spread)

    def values(self) -> list[float]:
        """All that the picture has to hold."""
        widths = self.spread or [0.0] * len(self.points)
        return [end for (_, y), w in zip(self.points, widths, strict=True) for end in (y - w, y + w)]


def chart(title: str, curves: Sequence[Curve], *, over: str = "training steps") -> str:
    """A figure of one or more curves, with the last values in its caption; `over`: what they stand over."""
    curves = [curve.thinned() for curve in curves]
    places = [place if curve.colour is None else curve.colour for place, curve in enumerate(curves)]
    coloured = [(curve, f"k{place % COLOURS}") for curve, place in zip(curves, places, strict=True)]
    values = [value for curve in curves for value in curve.values()]
    steps = [x for curve in curves for x, _ in curve.points]
    frame = _Frame.around(min(steps), max(steps), min(values), max(values))
    marks = "".join(_band(curve, colour, frame) for curve, colour in coloured if curve.spread)
    marks += "".join(_curve(curve, colour, frame, over) for curve, colour in coloured)
    legend = " ".join(
        f'<span class="key {colour}">{escape(curve.label)} <b>{figure(curve.points[-1][1])}</b></span>'
        for curve, colour in coloured
    )
    return (
        f"<figure><figcaption><strong>{escape(title)}</strong> {legend}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)} over {over}">'
        f"{_axes(frame)}{marks}</svg></figure>"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The data's rectangle, 0 included, and its way onto the picture."""

    x0: float
    x1: float
    y0: float
    y1: float
    ticks: list[float]

    @classmethod
    def around(cls, x0: float, x1: float, y0: float, y1: float) -> "_Frame":
        ticks = round_ticks(min(y0, 0.0), max(y1, 0.0))
        return cls(x0=x0, x1=x1 if x1 > x0 else x0 + 1.0, y0=ticks[0], y1=ticks[-1], ticks=ticks)

    def x(self, step: float) -> float:
        return LEFT + (step - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TOP + (self.y1 - value) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)


def _axes(frame: _Frame) -> str:
    rows = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{frame.y(t):.1f}" y2="{frame.y(t):.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{frame.y(t) + 4:.1f}" text-anchor="end">{figure(t)}</text>'
        for t in frame.ticks
    )
    middle = (frame.x0 + frame.x1) / 2
    if frame.x0 == round(frame.x0) and frame.x1 == round(frame.x1):
        middle = float(math.floor(middle))
    columns = "".join(
        f'<text class="tick" x="{frame.x(x):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{_place(x)}</text>'
        for x, anchor in ((frame.x0, "start"), (middle, "middle"), (frame.x1, "end"))
        if anchor != "middle" or frame.x0 < x < frame.x1
    )
    return rows + columns


def _band(curve: Curve, colour: str, frame: _Frame) -> str:
    both = list(zip(curve.points, curve.spread, strict=True))
    edges = [(x, y + width) for (x, y), width in both] + [(x, y - width) for (x, y), width in reversed(both)]
    line = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in edges)
    return f'<polygon class="band {colour}" points="{line}"/>'


def _curve(curve: Curve, colour: str, frame: _Frame, over: str) -> str:
    unit = over.rpartition(" ")[2].removesuffix("s")
    places = [(frame.x(x), frame.y(y)) for x, y in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    spots = "".join(
        f'<circle class="spot" cx="{px:.1f}" cy="{py:.1f}" r="5">'
        f"<title>{escape(curve.label)}, {unit} {_place(x)}: {figure(y)}</title></circle>"
        for (px, py), (x, y) in zip(places, curve.points, strict=True)
    )
    end = f'<circle class="end {colour}" cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" r="2.5"/>'
    return f'<polyline class="line {colour}" points="{line}"/>{end}{spots}'


def thinned(points: Points, most: int) -> Points:
    """At most `most` points: runs of equal length, each replaced by its last step and its mean value."""
    if len(points) <= most:
        return points
    run = math.ceil(len(points) / most)
    runs = [points[start : start + run] for start in range(0, len(points), run)]
    return [(part[-1][0], sum(y for _, y in part) / len(part)) for part in runs]


def round_ticks(low: float, high: float, *, about: int = 4) -> list[float]:
    """Round numbers from at most `low` to at least `high`, evenly spaced, two or more."""
    if not high > low:
        high = low + 1.0
    raw = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(raw))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


def _place(x: float) -> str:
    """On the axis: a step in full."""
    return f"{x:.0f}" if x == round(x) else figure(x)


def figure(value: float) -> str:
    """A number for a narrow place: three digits, k and M from ten thousand on."""
    size = abs(value)
    if size >= 1e7:
        return f"{value / 1e6:.3g}M"
    if size >= 1e4:
        return f"{value / 1e3:.3g}k"
    if size >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"
