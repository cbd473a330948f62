"""What a person sees while a run goes on: a live panel on a terminal, plain lines everywhere else.

`Status` is pure: records in, text out. `Progress` alone touches the console.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.dataflow.record.curves import figure
from headrace.dataflow.record.telemetry import (
    METRICS,
    QUEUE,
    QUEUE_STARTED,
    RUN_ENDED,
    RUN_STARTED,
    Record,
    details,
)

PLAIN_LINES = 40
"""Lines that a whole run prints where there is no terminal, about."""
MAX_EVENT_LENGTH = 240

FIGURES = {
    "reward": "reward/mean",
    "exact": "reward/exact",
    "staleness": "staleness/max",
    "tokens/s": "perf/tokens_per_s",
}
QUIET_EVENTS = frozenset({"state", "started", "checkpoint", QUEUE, QUEUE_STARTED, RUN_STARTED, RUN_ENDED})
"""Events of a healthy run: they are in events.jsonl and not worth a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where the run stands."""

    steps: int
    """Steps asked for."""
    step: int = 0
    """Steps done."""
    first: tuple[int, float] | None = None
    """Steps done and time at the first record of this launch; None: no step yet."""
    at: float = 0.0
    """Time of the last step, Unix seconds."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Of the last step."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """Fraction of time by replica."""

    def after(self, record: Record) -> "Status":
        """The status once `record` is known."""
        if record.kind != METRICS:
            return self
        if record.step is not None:
            done = record.step + 1
            first = self.first or (done, record.at)
            return replace(self, step=done, at=record.at, first=first, metrics=record.body)
        if (busy := record.body.get("busy")) is None:
            return self
        return replace(self, busy={**self.busy, record.source: busy})

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None until two steps are done."""
        if self.first is None or self.step <= self.first[0]:
            return None
        pace = (self.at - self.first[1]) / (self.step - self.first[0])
        return pace * (self.steps - self.step)

    def figures(self) -> str:
        """The step's figures that are known, in one line."""
        known = ((name, self.metrics.get(metric)) for name, metric in FIGURES.items())
        return "  ".join(f"{name} {figure(value)}" for name, value in known if value is not None)

    def services(self) -> str:
        """How busy each service is, its replicas averaged."""
        shares: dict[str, list[float]] = {}
        for replica, share in sorted(self.busy.items()):
            shares.setdefault(replica.split("/")[0], []).append(share)
        return "  ".join(f"{node} {sum(s) / len(s):.0%}" for node, s in shares.items())

    def line(self) -> str:
        """The status in one line of plain text."""
        busy = self.services()
        parts = [f"step {self.step}/{self.steps}", self.figures(), f"busy: {busy}" if busy else ""]
        return "  ".join(part for part in parts if part)

    def panel(self) -> RenderableType:
        """The status as a bar, figures and services."""
        bar = Table.grid(padding=(0, 2))
        left = "" if self.seconds_left is None else f"{_duration(self.seconds_left)} left"
        bar.add_row(
            f"step {self.step}/{self.steps}",
            ProgressBar(total=self.steps, completed=self.step, width=36),
            Text(left, style="dim"),
        )
        return Group(bar, Text(self.figures()), Text(self.services(), style="dim"))


def event_line(record: Record) -> str | None:
    """One line for an event that a person should know of; None for the rest."""
    if record.kind == METRICS or record.kind in QUIET_EVENTS:
        return None
    text = f"{record.source}: {record.kind} {details(record.body)}".strip().replace("\n", " ")
    return text if len(text) <= MAX_EVENT_LENGTH else f"{text[: MAX_EVENT_LENGTH - 1]}…"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Shows records as they come; a context manager that leaves the last status standing."""

    def __init__(self, steps: int, console: Console | None = None) -> None:
        self._console = console or Console()
        self._status = Status(steps=steps)
        self._every = max(steps // PLAIN_LINES, 1)
        self._live: Live | None = None

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live = Live(self._status.panel(), console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def take(self, record: Record) -> None:
        self._status = self._status.after(record)
        if (text := event_line(record)) is not None:
            self._print(text)
        if self._live is not None:
            self._live.update(self._status.panel(), refresh=True)
        elif record.kind == METRICS and record.step is not None and self._is_due(self._status.step):
            self._print(self._status.line())

    def _is_due(self, done: int) -> bool:
        return done % self._every == 0 or done in (1, self._status.steps)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
