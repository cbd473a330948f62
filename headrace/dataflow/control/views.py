"""What the dashboard's own routes answer: the graph's picture, curves, samples."""

from headrace.dataflow.control.answers import Answer

Point = tuple[float, float]


class Rect(Answer):
    x: float
    y: float
    width: float
    height: float


class Card(Answer):
    """A service, in its place."""

    name: str
    kind: str
    lines: list[str]
    """What it does."""
    fused: list[str]
    """Transforms within it."""
    table: str
    """Whose rows it leases; "" where it leases none."""
    why_single: str
    """Why it cannot be scaled; "" where it can."""
    rect: Rect


class Band(Answer):
    """The background of what works on one table."""

    table: str
    lines: list[str]
    rect: Rect


class Flow(Answer):
    """Columns on their way: bent from the first point to the second, straight to the third, and so on."""

    source: str
    target: str
    columns: list[str]
    points: list[Point]


class Supply(Answer):
    """Weights on their way, straight from point to point."""

    trainer: str
    policy: str
    reader: str
    points: list[Point]


class Picture(Answer):
    """In units of its own; y grows downwards."""

    name: str
    width: float
    height: float
    bands: list[Band]
    cards: list[Card]
    flows: list[Flow]
    supplies: list[Supply]


class Metrics(Answer):
    metrics: dict[str, list[str]]
    """Those that are known, by policy."""


class Curves(Answer):
    policy: str
    curves: dict[str, list[Point]]
    """By metric, (step, value); runs of steps are averaged where there are many."""


class Sample(Answer):
    """A row that a trainer took, as it shows it."""

    table: str
    uid: str
    group: str
    policy: str
    step: int
    prompt: str
    answer: str
    prompt_tokens: int
    answer_tokens: int
    reward: float | None
    """None where it is invalid."""
    invalid: str
    parts: dict[str, float]
    finish_reason: str
    versions: list[tuple[int, int]]
    """Runs of (version, tokens)."""
    staleness: int | None
    taken: float
    """By the trainer, Unix seconds."""
    trained: float
    at: float


class Samples(Answer):
    samples: list[Sample]
    """The newest first."""


class Stage(Answer):
    """What became of a row for a while, Unix seconds."""

    name: str
    replica: str
    """That had the row; "": it waited."""
    began: float
    ended: float


class Way(Answer):
    """The way of a row through the services; stages touch."""

    stages: list[Stage]
    """None where the traces do not have all of it, any more or yet."""
