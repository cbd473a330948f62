"""Every metric of a run over its steps, in bounded memory: what a page of a live run draws its curves from.

Invariant: a curve holds at most `MOST_POINTS` points. Where there would be more, neighbours are replaced by
their mean, and from then on as many steps go into each point. A step that comes again after later ones was
rolled back: it and all after it begin anew.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from headrace.dataflow.record.history import History
from headrace.dataflow.record.telemetry import METRICS, SCORES, Record

MOST_POINTS: Final = 512

LABELS: Final = frozenset({"step", "version", "policy", "eval", "time"})
"""Keys of a recorded line that are no metrics."""

Point = tuple[float, float]
"""Step, or version that was scored, and value."""


class Curve:
    """Points of one metric."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        """`most`: even."""
        self._most = most
        self._per_point = 1
        self._points: list[Point] = []
        self._gathered: list[Point] = []

    def add(self, step: float, value: float) -> None:
        if (last := self._last()) is not None and step <= last:
            self._points = [point for point in self._points if point[0] < step]
            self._gathered = [point for point in self._gathered if point[0] < step]
        self._gathered.append((step, value))
        if len(self._gathered) < self._per_point:
            return
        self._points.append(_mean(self._gathered))
        self._gathered = []
        if len(self._points) == self._most:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [_mean(pair) for pair in pairs]
            self._per_point *= 2

    def points(self) -> list[Point]:
        """Ascending by step; the last one is of the newest step, however few went into it."""
        return [*self._points, *([_mean(self._gathered)] if self._gathered else [])]

    def _last(self) -> float | None:
        known = self._gathered or self._points
        return known[-1][0] if known else None


class Series:
    """The curves of each policy and of each eval."""

    def __init__(self) -> None:
        self._curves: dict[str, dict[str, Curve]] = defaultdict(lambda: defaultdict(Curve))

    @classmethod
    def of(cls, history: History) -> Self:
        """What earlier launches of the run recorded."""
        made = cls()
        for course in (*history.policies.values(), *history.evals.values()):
            for line in course.lines:
                made._add(course.policy, line[course.over], line)
        return made

    def take(self, record: Record) -> None:
        """A record of telemetry; those without a step are passed over."""
        if record.kind in (METRICS, SCORES) and record.step is not None:
            self._add(record.policy, record.step, record.body)

    def names(self) -> dict[str, list[str]]:
        """Metrics that are known, by policy."""
        return {policy: sorted(curves) for policy, curves in self._curves.items()}

    def points(self, policy: str, metrics: Iterable[str]) -> dict[str, list[Point]]:
        """Of those metrics that are known."""
        known = self._curves.get(policy, {})
        return {metric: known[metric].points() for metric in metrics if metric in known}

    def _add(self, policy: str, step: int, values: Mapping[str, object]) -> None:
        for metric, value in values.items():
            if metric not in LABELS and isinstance(value, int | float) and math.isfinite(value):
                self._curves[policy][metric].add(step, value)


def _mean(points: Sequence[Point]) -> Point:
    """The last step, with the mean value."""
    return points[-1][0], sum(value for _, value in points) / len(points)
