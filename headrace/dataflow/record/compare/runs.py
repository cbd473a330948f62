"""One run as it is compared: its settings by dotted key, its figures, its curves."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from headrace.dataflow.record.history import History
from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.dataflow.record.summary import Figures, summary_of

SEEDS: Final = frozenset({"seed", "name"})
"""Settings by which the runs of one group may differ."""
CURVES: Final = (
    "reward/mean",
    "reward/exact",
    "actor/pg_loss",
    "actor/grad_norm",
    "actor/ppo_kl",
    "actor/entropy",
    "critic/vf_loss",
    "staleness/mean",
    "response_length/mean",
    "perf/tokens_per_s",
    "perf/step_time",
)
FIGURES: Final = (
    "steps",
    "seconds",
    "tokens_per_s",
    "reward_first",
    "reward_last",
    "exact_first",
    "exact_last",
    "staleness_mean",
    "staleness_max",
    "staleness_violations",
    "samples_trained",
)
Moments = Sequence[tuple[int, float, float]]
"""(step, seconds of running since the first step was done, value)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    path: Path
    settings: Mapping[str, Any] = field(repr=False)
    """Of the resolved graph, by dotted key; lists are values."""
    figures: Figures = field(repr=False)
    curves: Mapping[tuple[str, str], Moments] = field(repr=False)
    """By policy and metric; the policy is "" where the run trained one."""
    staleness: Mapping[int, float] = field(repr=False)
    """Share of the samples trained on, by staleness; of all policies."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises RunDirError where `path` is no run's, or its records are broken."""
        run = RunDir.open(path)
        try:
            tree = yaml.safe_load(run.graph.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise RunDirError(f"{run.graph} is no YAML: {error}") from error
        history = History.read(path)
        means = [
            value for course in history.policies.values() for _, value in course.values("staleness/mean")
        ]
        return cls(
            path=run.path,
            settings=dict(_flat(tree, ())),
            figures={**summary_of(history), "staleness_mean": sum(means) / len(means) if means else None},
            curves=dict(_curves(history)),
            staleness=_staleness(history),
        )

    def identity(self) -> dict[str, Any]:
        """What makes it the same experiment as another."""
        return {key: value for key, value in self.settings.items() if key not in SEEDS}


def read(paths: Sequence[Path]) -> list[Run]:
    """Raises RunDirError as `Run.read`, and where one run is given twice."""
    runs = [Run.read(path.resolve()) for path in paths]
    again = [run.path for place, run in enumerate(runs) if run.path in {each.path for each in runs[:place]}]
    if again:
        raise RunDirError(f"{again[0]} is given twice; name each run once")
    return runs


def _flat(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _flat(value, (*path, str(key)))
    else:
        yield ".".join(path), tree


def _curves(history: History) -> Iterator[tuple[tuple[str, str], Moments]]:
    several = len(history.policies) > 1
    for policy, course in history.policies.items():
        start = history.seconds_until(course.lines[0]["time"])
        for metric in CURVES:
            moments = [
                (line["step"], history.seconds_until(line["time"]) - start, line[metric])
                for line in course.lines
                if line.get(metric) is not None
            ]
            if moments:
                yield (policy if several else "", metric), moments


def _staleness(history: History) -> dict[int, float]:
    counts: Counter[int] = Counter()
    prefix = "staleness/count/"
    for course in history.policies.values():
        for line in course.lines:
            for name, count in line.items():
                if name.startswith(prefix) and count:
                    counts[int(name.removeprefix(prefix))] += round(count)
    return {staleness: counts[staleness] / counts.total() for staleness in sorted(counts)}
