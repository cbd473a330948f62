"""The newest figures that a launch's records said, and what they add up to. Pure: records in.

Invariant: a total grows for as long as a launch or a replica's life lasts, as a counter of Prometheus must;
that of a replica begins anew with its next life.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.dataflow.record.telemetry import SCORES, STARTED, Record
from headrace.services.clock import ACTIVITIES, ALIVE

SECONDS: Final = "perf/step_time"
TOKENS_PER_S: Final = "perf/tokens_per_s"
SAMPLES: Final = "samples/trained"


@dataclass(slots=True)
class Trained:
    """Totals of one policy in this launch."""

    steps: int = 0
    seconds: float = 0.0
    samples: float = 0.0
    tokens: float = 0.0
    """Of answers."""

    def add(self, body: Mapping[str, float]) -> None:
        seconds = body.get(SECONDS, 0.0)
        self.steps += 1
        self.seconds += seconds
        self.samples += body.get(SAMPLES, 0.0)
        self.tokens += body.get(TOKENS_PER_S, 0.0) * seconds


@dataclass(slots=True)
class Spent:
    """Seconds of one life of a replica, by activity."""

    alive: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def after(self, body: Mapping[str, float]) -> "Spent":
        """A share times its whole may fall short of what was said before by a rounding."""
        alive = body[ALIVE]
        before = self.seconds if alive >= self.alive else {}
        now = {name: max(body[name] * alive, before.get(name, 0.0)) for name in ACTIVITIES if name in body}
        return Spent(alive, now)


class Newest:
    """Of one launch."""

    def __init__(self) -> None:
        self.steps: dict[str, Mapping[str, float]] = {}
        """Figures of the last step, by policy."""
        self.trained: dict[str, Trained] = defaultdict(Trained)
        self.evals: dict[tuple[str, str], tuple[int, Mapping[str, float]]] = {}
        """By eval and policy: the version scored last, and its figures."""
        self.replicas: dict[str, dict[str, float]] = {}
        self.spent: dict[str, Spent] = {}
        """By replica."""
        self.starts: Counter[str] = Counter()
        """Lives begun, by replica."""
        self.events: Counter[tuple[str, str]] = Counter()
        """By source and kind."""

    def take(self, record: Record) -> None:
        if record.is_event:
            self.events[record.source, record.kind] += 1
            if record.kind == STARTED:
                self.starts[str(record.body["replica"])] += 1
        elif not record.has_figures:
            return
        elif record.step is None:
            self.replicas.setdefault(record.source, {}).update(record.body)
            if ALIVE in record.body:
                self.spent[record.source] = self.spent.get(record.source, Spent()).after(record.body)
        elif record.kind == SCORES:
            self.evals[record.node, record.policy] = record.step, record.body
        else:
            self.steps[record.policy] = record.body
            self.trained[record.policy].add(record.body)
