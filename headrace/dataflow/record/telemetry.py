"""Where telemetry ends up: metrics.jsonl and events.jsonl of the run directory, the source of truth.

A record with a step is a line of that step, one without a service's own; anything but metrics is an event.
Whatever else shows a run (terminal, report, dashboard) follows these records and may die alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.dataflow.record.rundir import JsonlWriter, RunDir

METRICS = "metrics"
QUEUE = "queue"
QUEUE_STARTED = "queue_started"
"""Event of the launcher at a launch's end, once a table: the queue's counters."""
RUN_STARTED = "run_started"
"""Event of the launcher, once a launch: services start now."""
RUN_ENDED = "run_ended"
"""Event of the launcher, once a launch, with `status`: completed, failed or interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a service said."""

    source: str
    """The replica, e.g. "answers/0", or "launch"."""
    kind: str
    """"metrics", or the event's name."""
    at: float
    """Unix seconds."""
    step: int | None
    """The trainer's step that the metrics describe, counted from 0; None: the service's own."""
    body: Mapping[str, Any] = field(repr=False)


def line(record: Record) -> dict[str, Any]:
    """The record as a line of its file."""
    if record.kind != METRICS:
        return {"time": record.at, "event": record.kind, "source": record.source, **record.body}
    if record.step is None:
        return {"service": record.source, "time": record.at, **record.body}
    return {"step": record.step, "time": record.at, **record.body}


def details(body: Mapping[str, Any]) -> str:
    """An event's details in one line, empty ones left out."""
    return ", ".join(f"{name} {value}" for name, value in body.items() if value not in ("", None, {}, []))


class Telemetry:
    """Writes records to the run's files and hands each to `watch`, such as the progress in the terminal."""

    def __init__(self, run: RunDir, *, watch: Callable[[Record], None] | None = None) -> None:
        self._metrics = JsonlWriter(run.metrics)
        self._events = JsonlWriter(run.events)
        self._watch = watch

    def take(self, record: Record) -> None:
        file = self._metrics if record.kind == METRICS else self._events
        file.write(line(record))
        if self._watch is not None:
            self._watch(record)

    def close(self) -> None:
        self._metrics.close()
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
