"""What a run's records say, once read: each policy's steps, its scores, each service's last word, the events.

Invariant: one entry per step of a policy. A step that comes again after later ones was rolled back by a
resume: it and all after it begin anew, so that nothing is counted twice. The same holds for the versions that
an eval scored.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, Literal, Self

from headrace.dataflow.record.rundir import RunDir, each_of_jsonl
from headrace.dataflow.record.telemetry import QUEUE, RUN_ENDED, RUN_STARTED

Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Lines over a policy's steps, or over its versions that an eval scored."""

    over: Literal["step", "version"] = "step"
    policy: str = ""
    """"" where the records do not name it."""
    lines: list[Line] = field(default_factory=list, repr=False)
    """Ascending by `over`."""

    def values(self, metric: str) -> list[tuple[int, float]]:
        """(step or version, value) of `metric` where it is known."""
        return [(line[self.over], line[metric]) for line in self.lines if line.get(metric) is not None]

    def add(self, line: Line) -> None:
        number = line[self.over]
        if self.lines and number < self.lines[-1][self.over]:
            self.lines[:] = [each for each in self.lines if each[self.over] < number]
        if self.lines and number == self.lines[-1][self.over]:
            self.lines[-1] = {**self.lines[-1], **line}
        else:
            self.lines.append(line)


@dataclass(frozen=True, kw_only=True)
class History:
    policies: dict[str, Course] = field(repr=False)
    """Steps of each policy that is trained, as they first came."""
    evals: dict[str, Course] = field(repr=False)
    """Scores of each eval."""
    services: dict[str, Line] = field(repr=False)
    """Newest value of each metric that a replica reports of itself, by replica."""
    events: list[Line] = field(repr=False)

    @classmethod
    def read(cls, run_dir: Path) -> Self:
        """Raises RunDirError where `run_dir` is not a run's, or a record is broken."""
        run = RunDir.open(run_dir)
        return cls.of(each_of_jsonl(run.metrics), each_of_jsonl(run.events))

    @classmethod
    def of(cls, metrics: Iterable[Line], events: Iterable[Line]) -> Self:
        policies: dict[str, Course] = {}
        evals: dict[str, Course] = {}
        services: dict[str, Line] = {}
        for line in metrics:
            policy = line.get("policy", "")
            if "step" in line:
                policies.setdefault(policy, Course(policy=policy)).add(line)
            elif "eval" in line:
                evals.setdefault(line["eval"], Course(over="version", policy=policy)).add(line)
            else:
                services.setdefault(line["service"], {}).update(line)
        return cls(policies=policies, evals=evals, services=services, events=list(events))

    def course(self, policy: str | None = None) -> Course:
        """A policy's steps; None: of the only one. Empty where no step was recorded.

        Raises ValueError where there are several and none is named.
        """
        if policy is None and len(self.policies) > 1:
            raise ValueError(f"the run trained {', '.join(self.policies)}; name one of them")
        name = next(iter(self.policies), "") if policy is None else policy
        return self.policies.get(name, Course(policy=name))

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
        return self.seconds_until(math.inf)

    def seconds_until(self, time: float) -> float:
        """That much of it until a moment, Unix seconds; between launches it stands."""
        times, seconds = self._clock
        place = bisect_right(times, time) - 1
        return seconds[place] if place >= 0 else 0.0

    @cached_property
    def _clock(self) -> tuple[list[float], list[float]]:
        """Moments of all records, ascending, and the seconds that services had run by then."""
        courses = chain.from_iterable(c.lines for c in (*self.policies.values(), *self.evals.values()))
        times = sorted(
            (line["time"], line.get("event") == RUN_STARTED)
            for line in (*courses, *self.services.values(), *self.events)
        )
        gaps = [0.0 if starts else now - before for (before, _), (now, starts) in pairwise(times)]
        return [moment for moment, _ in times], list(accumulate(gaps, initial=0.0))[: len(times)]
