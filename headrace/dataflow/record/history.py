"""What a run's records say, once read: its steps, each service's last word, its events.

Invariant: one entry per step. A step that comes again after later ones was rolled back by a resume: it and
all after it begin anew, so that nothing is counted twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.record.telemetry import QUEUE, RUN_ENDED, RUN_STARTED

Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    steps: list[Line] = field(repr=False)
    """Ascending by `step`."""
    services: dict[str, Line] = field(repr=False)
    """Newest value of each metric that a replica reports of itself, by replica."""
    events: list[Line] = field(repr=False)

    @classmethod
    def read(cls, run_dir: Path) -> Self:
        """Raises RunDirError where `run_dir` is not a run's, or a record is broken."""
        run = RunDir.open(run_dir)
        return cls.of(read_jsonl(run.metrics).records, read_jsonl(run.events).records)

    @classmethod
    def of(cls, metrics: Sequence[Line], events: Sequence[Line]) -> Self:
        steps: dict[int, Line] = {}
        services: dict[str, Line] = {}
        for line in metrics:
            if "step" in line:
                _add_step(steps, line)
            else:
                services.setdefault(line["service"], {}).update(line)
        return cls(steps=list(steps.values()), services=services, events=list(events))

    def values(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of `metric` where it is known."""
        return [(line["step"], line[metric]) for line in self.steps if line.get(metric) is not None]

    def queue_total(self, counter: str) -> int | None:
        """A counter of the queue's last words, over all tables and launches; None where it left none.

        A queue on disk counts over its launches itself: its newest words hold.
        """
        words = [event for event in self.events if event["event"] == QUEUE]
        lasting = {event["table"]: event[counter] for event in words if event.get("lasting")}
        counts = [event[counter] for event in words if not event.get("lasting")] + list(lasting.values())
        return sum(counts) if counts else None

    def by_service(self) -> dict[str, list[Line]]:
        """The lines of each service's replicas; "answers/0" is a replica of "answers"."""
        nodes: dict[str, list[Line]] = {}
        for replica, line in sorted(self.services.items()):
            nodes.setdefault(replica.split("/")[0], []).append(line)
        return nodes

    @property
    def status(self) -> str:
        """The status that the last launch ended with; "unfinished" where it has not said one."""
        marks = [event for event in self.events if event["event"] in (RUN_STARTED, RUN_ENDED)]
        if not marks or marks[-1]["event"] == RUN_STARTED:
            return "unfinished"
        return str(marks[-1]["status"])

    @property
    def seconds(self) -> float:
        """Time in which services ran, over all launches; one that was killed counts to its last word."""
        times = sorted(
            (line["time"], line.get("event") == RUN_STARTED)
            for line in (*self.steps, *self.services.values(), *self.events)
        )
        seconds = 0.0
        for (before, _), (now, starts) in pairwise(times):
            seconds += 0.0 if starts else now - before
        return seconds


def _add_step(steps: dict[int, Line], line: Line) -> None:
    step = line["step"]
    if steps and step < next(reversed(steps)):
        for later in [s for s in steps if s >= step]:
            del steps[later]
    steps.setdefault(step, {}).update(line)
