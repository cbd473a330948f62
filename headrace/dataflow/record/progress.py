"""What a person sees while a run goes on: a live panel on a terminal, plain lines everywhere else.

`Status` is pure: records in, text out. `Progress` alone touches the console. Invariant: a run goes on where
nobody reads its output any more, as behind `| head`.
"""

import os
import sys
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
    SCORES,
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
QUIET_EVENTS = frozenset(
    {
        "state",
        "started",
        "checkpoint",
        "evaluated",
        "not_joined",
        QUEUE,
        QUEUE_STARTED,
        RUN_STARTED,
        RUN_ENDED,
    }
)
"""Events of a healthy run: they are in events.jsonl and not worth a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the training of one policy stands."""

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

    def after(self, step: int, record: Record) -> "Standing":
        done = step + 1
        first = self.first or (done, record.at)
        return replace(self, step=done, at=record.at, first=first, metrics=record.body)

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None until two steps are done."""
        if self.first is None or self.step <= self.first[0]:
            return None
        pace = (self.at - self.first[1]) / (self.step - self.first[0])
        return pace * (self.steps - self.step)

    def figures(self) -> str:
        """The step's figures that are known, in one line."""
        return figures(self.metrics, FIGURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where the run stands."""

    policies: Mapping[str, Standing]
    """Of each policy that is trained."""
    busy: Mapping[str, float] = field(default_factory=dict)
    """Fraction of time by replica."""

    @classmethod
    def of(cls, steps: Mapping[str, int]) -> "Status":
        """`steps`: those asked for, by policy."""
        return cls(policies={policy: Standing(steps=count) for policy, count in steps.items()})

    def after(self, record: Record) -> "Status":
        """The status once `record` is known."""
        if record.kind != METRICS:
            return self
        if record.step is not None:
            known = self.policies.get(record.policy)
            moved = {} if known is None else {record.policy: known.after(record.step, record)}
            return replace(self, policies={**self.policies, **moved})
        if (busy := record.body.get("busy")) is None:
            return self
        return replace(self, busy={**self.busy, record.source: busy})

    def services(self) -> str:
        """How busy each service is, its replicas averaged."""
        shares: dict[str, list[float]] = {}
        for replica, share in sorted(self.busy.items()):
            shares.setdefault(replica.split("/")[0], []).append(share)
        return "  ".join(f"{node} {sum(s) / len(s):.0%}" for node, s in shares.items())

    def line(self, policy: str) -> str:
        """One policy's status in one line of plain text, which names it where there are several."""
        standing, busy = self.policies[policy], self.services()
        parts = [
            policy if len(self.policies) > 1 else "",
            f"step {standing.step}/{standing.steps}",
            standing.figures(),
            f"busy: {busy}" if busy else "",
        ]
        return "  ".join(part for part in parts if part)

    def panel(self) -> RenderableType:
        """The status as a bar and figures for each policy, and the services."""
        bars = Table.grid(padding=(0, 2))
        for policy, standing in self.policies.items():
            left = "" if standing.seconds_left is None else f"{_duration(standing.seconds_left)} left"
            bars.add_row(
                *([Text(policy)] if len(self.policies) > 1 else []),
                f"step {standing.step}/{standing.steps}",
                ProgressBar(total=standing.steps, completed=standing.step, width=36),
                Text(left, style="dim"),
            )
        lines = [standing.figures() for standing in self.policies.values()]
        if len(self.policies) > 1:
            lines = [f"{policy}  {line}" for policy, line in zip(self.policies, lines, strict=True)]
        return Group(bars, *map(Text, lines), Text(self.services(), style="dim"))


def figures(metrics: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Those of `names` that are known, in one line."""
    known = ((name, metrics.get(metric)) for name, metric in names.items())
    return "  ".join(f"{name} {figure(value)}" for name, value in known if value is not None)


def scores_line(record: Record) -> str:
    """What an eval says of a version."""
    root = f"eval/{record.node}/"
    names = {metric.removeprefix(root): metric for metric in record.body}
    return f"{record.node}: version {record.step} of {record.policy}  {figures(record.body, names)}"


def event_line(record: Record) -> str | None:
    """One line for an event that a person should know of; None for the rest."""
    if not record.is_event or record.kind in QUIET_EVENTS:
        return None
    text = f"{record.source}: {record.kind} {details(record.body)}".strip().replace("\n", " ")
    return text if len(text) <= MAX_EVENT_LENGTH else f"{text[: MAX_EVENT_LENGTH - 1]}…"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Outliving(Console):
    """A console that falls silent where its reader is gone; what is printed after it is lost too."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Progress:
    """Shows records as they come; a context manager that leaves the last status standing."""

    def __init__(self, steps: Mapping[str, int], console: Console | None = None) -> None:
        """`steps`: those asked for, by policy."""
        self._console = console or _Outliving()
        self._status = Status.of(steps)
        self._every = max(sum(steps.values()) // PLAIN_LINES, 1)
        self._live: Live | None = None

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live = Live(self._status.panel(), console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def take(self, record: Record) -> None:
        self._status = self._status.after(record)
        text = scores_line(record) if record.kind == SCORES else event_line(record)
        if text is not None:
            self._print(text)
        if self._live is not None:
            self._live.update(self._status.panel(), refresh=True)
        elif record.kind == METRICS and record.step is not None and self._is_due(record.policy):
            self._print(self._status.line(record.policy))

    def _is_due(self, policy: str) -> bool:
        standing = self._status.policies.get(policy)
        if standing is None:
            return False
        return standing.step % self._every == 0 or standing.step in (1, standing.steps)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
