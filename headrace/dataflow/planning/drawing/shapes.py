"""The shapes of a picture, in its units; y grows downwards."""

from dataclasses import dataclass

from headrace.dataflow.planning.drawing.picture import Box, Flow, Supply

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: "Rect") -> bool:
        """Whether more than an edge is shared."""
        across = self.x < other.right and other.x < self.right
        return across and self.y < other.bottom and other.y < self.bottom


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A box with its place and its lines."""

    box: Box
    rect: Rect
    lines: tuple[str, ...]
    """What it does, wrapped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The background of a lane."""

    name: str
    lines: tuple[str, ...]
    rect: Rect


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A flow: it bends from the first point to the second, goes straight to the third, bends again ..."""

    flow: Flow
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Weights on their way: straight from point to point."""

    supply: Supply
    points: tuple[Point, ...]
    label: Point | None
    """Where the middle of what is said of them is, beside a way up; None: there is no room, or it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    width: float
    height: float
    bands: tuple[Band, ...]
    cards: tuple[Card, ...]
    curves: tuple[Curve, ...]
    lines: tuple[Line, ...]
