"""The way of each sample through the services, as stages one after another. Pure.

    put ─► waits for answers ─► answers ─► waits for scores ─► scores ─► waits for learn ─► learn

Where nodes work on a row side by side, the way leads through the one that was done last: it is what the next
one waited for. Invariant: a life's stages touch and do not overlap, so that their times sum to its length.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from headrace.dataflow.record.tracing.read import RowKey, Traces, Visit


@dataclass(frozen=True, slots=True)
class Stage:
    """Unix seconds."""

    name: str
    began: float
    ended: float
    replica: str = ""
    """That had the row; "": it waited."""

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One sample, from when it was put until its last node was done with it."""

    row: RowKey
    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        return self.stages[-1].ended - self.stages[0].began


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFigures:
    """A stage over all samples that went through it."""

    name: str
    samples: int
    median_s: float
    p95_s: float
    share: float
    """Of the time of all samples."""


def lives(traces: Traces, trainers: Sequence[str], upstream: Mapping[str, Sequence[str]]) -> list[Life]:
    """Of the samples that were trained on, in the order in which they were.

    `upstream`: by node, those that a row passes before it. A row whose beginning the traces no longer have
    is left out.
    """
    found = [
        Life(row=row, stages=tuple(reversed(list(_back(traces.puts[row], trainer, visits, upstream)))))
        for row, visits in traces.visits.items()
        for trainer in trainers
        if trainer in visits and row in traces.puts
    ]
    return sorted(found, key=lambda life: (life.stages[-1].ended, life.row))


def _back(
    put: float, node: str, visits: Mapping[str, Visit], upstream: Mapping[str, Sequence[str]]
) -> Iterator[Stage]:
    """The stages from the last to the first. A row may be leased before the one that wrote it has heard that
    it is written: the stage before ends then."""
    end = visits[node].written
    while True:
        leased = min(max(put, visits[node].leased), end)
        yield Stage(node, leased, end, visits[node].replica)
        before = [each for each in upstream[node] if each in visits and visits[each].made <= leased]
        last = max(before, key=lambda each: visits[each].written, default=None)
        ready = put if last is None else max(put, min(visits[last].written, leased))
        yield Stage(f"waits for {node}", ready, leased)
        if last is None:
            return
        node, end = last, ready


def figures(samples: Sequence[Life]) -> list[StageFigures]:
    """By stage, in the order in which samples come to them."""
    seconds: dict[str, list[float]] = {}
    for life in samples:
        for stage in life.stages:
            seconds.setdefault(stage.name, []).append(stage.seconds)
    whole = sum(map(sum, seconds.values()))
    return [
        StageFigures(
            name=name,
            samples=len(each),
            median_s=median(each),
            p95_s=p95(each),
            share=sum(each) / whole if whole else 0.0,
        )
        for name, each in seconds.items()
    ]


def p95(values: Sequence[float]) -> float:
    """The value that 95 % do not exceed, between neighbours by proportion."""
    return values[0] if len(values) == 1 else quantiles(values, n=20, method="inclusive")[-1]
