"""What a tracker is handed of a run's records: figures at a training step. Pure.

Figures of a step keep their names, behind their policy's where several are trained; a replica's stand behind
its own name, at the newest step, and are left out before there is one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.dataflow.record.telemetry import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Figures of one moment."""

    step: int
    """The version that a training step started from, or that an eval scored."""
    at: float
    """Unix seconds."""
    figures: Mapping[str, float] = field(repr=False)
    """Finite, by name; at least one."""


class Points:
    """Records in, points out."""

    def __init__(self, policies: int) -> None:
        """`policies`: how many are trained."""
        self._several = policies > 1
        self._newest: int | None = None

    def of(self, record: Record) -> Point | None:
        """None where the record has no figure."""
        if not record.has_figures:
            return None
        if record.is_training:
            self._newest = record.step
        step = self._newest if record.step is None else record.step
        figures = _finite(record.body, self._prefix(record))
        return Point(step=step, at=record.at, figures=figures) if figures and step is not None else None

    def _prefix(self, record: Record) -> str:
        if record.step is None:
            return f"{record.source}/"
        return f"{record.policy}/" if self._several and record.is_training else ""


def _finite(body: Mapping[str, object], prefix: str) -> dict[str, float]:
    return {
        f"{prefix}{name}": float(value)
        for name, value in body.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
