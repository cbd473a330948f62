"""Where telemetry ends up: metrics.jsonl and events.jsonl of the run directory, the source of truth.

A line of metrics.jsonl is one of three:

    {"step": 3, "policy": "actor", ...}                        what a trainer says of its policy's step
    {"eval": "held_out", "version": 20, "policy": "actor", ...}   what an eval says of a version of one
    {"service": "answers/0", ...}                              what a replica says of itself

Anything else is an event, but for the samples that a trainer shows, which are not kept. Whatever else shows a
run (terminal, report, dashboard) follows these records and may die alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.rundir import JsonlWriter, RunDir

METRICS = "metrics"
SCORES = "scores"
"""Metrics of an eval; their step is the version that was scored."""
SAMPLES = "samples"
"""Samples of a step that its trainer shows; they are in no file."""
QUEUE = "queue"
QUEUE_STARTED = "queue_started"
"""Event of the launcher at a launch's end, once a table: the queue's counters."""
STARTED = "started"
"""Event of the launcher, once a life of a replica."""
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
    policy: str = ""
    """That the step is of; "": not known, or there is no step."""

    @property
    def node(self) -> str:
        return self.source.partition("/")[0]

    @property
    def is_event(self) -> bool:
        return self.kind not in (METRICS, SCORES, SAMPLES)

    @property
    def has_figures(self) -> bool:
        return self.kind in (METRICS, SCORES)

    @property
    def is_training(self) -> bool:
        """Whether it is of a training step."""
        return self.kind == METRICS and self.step is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speakers:
    """The nodes whose metrics are of a policy's steps or versions, each with the policy's name."""

    trainers: Mapping[str, str] = field(default_factory=dict)
    evals: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: GraphSpec) -> Self:
        trainers, evals = (
            {name: str(spec.nodes[name].policy) for name in spec.of_kind(kind)}
            for kind in ("trainer", "eval")
        )
        return cls(trainers=trainers, evals=evals)

    def named(self, record: Record) -> Record:
        """The record with the policy that it is of; that of an eval as one of scores."""
        if record.kind == SAMPLES:
            return replace(record, policy=self.trainers.get(record.node, ""))
        if record.kind != METRICS or record.step is None:
            return record
        if (policy := self.evals.get(record.node)) is not None:
            return replace(record, kind=SCORES, policy=policy)
        return replace(record, policy=self.trainers.get(record.node, ""))


def line(record: Record) -> dict[str, Any]:
    """The record as a line of its file."""
    if record.is_event:
        return {"time": record.at, "event": record.kind, "source": record.source, **record.body}
    if record.step is None:
        return {"service": record.source, "time": record.at, **record.body}
    policy = {"policy": record.policy} if record.policy else {}
    of = {"eval": record.node, "version": record.step} if record.kind == SCORES else {"step": record.step}
    return {**of, **policy, "time": record.at, **record.body}


def details(body: Mapping[str, Any]) -> str:
    """An event's details in one line, empty ones left out."""
    return ", ".join(f"{name} {value}" for name, value in body.items() if value not in ("", None, {}, []))


class Telemetry:
    """Writes records to the run's files and hands each to all of `watch`, such as the terminal's progress."""

    def __init__(
        self,
        run: RunDir,
        speakers: Speakers | None = None,
        *,
        watch: Sequence[Callable[[Record], None]] = (),
    ) -> None:
        """`speakers`: None where no step of the records is to be named by its policy."""
        self._speakers = speakers or Speakers()
        self._metrics = JsonlWriter(run.metrics)
        self._events = JsonlWriter(run.events)
        self._watch = list(watch)

    def follow(self, watch: Callable[[Record], None]) -> None:
        """Hands `watch` every record from now on."""
        self._watch.append(watch)

    def take(self, record: Record) -> None:
        record = self._speakers.named(record)
        if record.kind != SAMPLES:
            file = self._events if record.is_event else self._metrics
            file.write(line(record))
        for watch in self._watch:
            watch(record)

    def close(self) -> None:
        self._metrics.close()
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
