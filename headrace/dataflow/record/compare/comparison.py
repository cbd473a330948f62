"""What differs between runs, and what came of it. Pure, once they are read.

Runs that differ in nothing but their seed are one group: its figures have a mean and a spread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from headrace.dataflow.record.compare.runs import FIGURES, Run
from headrace.dataflow.record.compare.spread import Line, Spread, by_seconds, by_step

ABSENT: Final = "-"
"""In place of the value of a key that a run's graph does not have."""
KEYS_IN_LABEL: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    label: str
    """What it has set otherwise than the others."""
    runs: tuple[Run, ...] = field(repr=False)
    figures: Mapping[str, Spread | None]
    staleness: Mapping[int, float]
    """Mean share of the samples, by staleness."""

    def curves(self, key: tuple[str, str]) -> tuple[Line, Line]:
        """Of a policy and metric: over steps, and over seconds; empty where no run has it."""
        found = [run.curves[key] for run in self.runs if key in run.curves]
        return (by_step(found), by_seconds(found)) if found else ([], [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    runs: tuple[Run, ...] = field(repr=False)
    groups: tuple[Group, ...]
    differences: Mapping[str, tuple[Any, ...]]
    """By setting, the value of each run."""

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Policy and metric of every curve that some run has."""
        return list(dict.fromkeys(key for run in self.runs for key in run.curves))

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": [{"path": str(run.path), **run.figures} for run in self.runs],
            "differences": dict(self.differences),
            "groups": [
                {
                    "label": group.label,
                    "runs": [str(run.path) for run in group.runs],
                    "figures": {name: _plain(spread) for name, spread in group.figures.items()},
                    "staleness": {str(staleness): share for staleness, share in group.staleness.items()},
                    "curves": [_curve(group, key) for key in self.keys],
                }
                for group in self.groups
            ],
        }


def compared(runs: Sequence[Run]) -> Comparison:
    """Groups in the order of their first runs."""
    together: list[list[Run]] = []
    for run in runs:
        same = next((each for each in together if each[0].identity() == run.identity()), None)
        if same is None:
            together.append([run])
        else:
            same.append(run)
    labels = _labels([group[0] for group in together])
    return Comparison(
        runs=tuple(runs),
        groups=tuple(_group(label, group) for label, group in zip(labels, together, strict=True)),
        differences=differences([run.settings for run in runs]),
    )


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The keys whose values are not the same everywhere, in the order in which they are written."""
    names = dict.fromkeys(name for each in settings for name in each)
    values = {name: tuple(each.get(name, ABSENT) for each in settings) for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def _labels(firsts: Sequence[Run]) -> list[str]:
    """What each group has set; the run's own name where that says too little, or nothing."""
    told = differences([run.identity() for run in firsts])
    if len(firsts) == 1 or len(told) > KEYS_IN_LABEL:
        return [f"{run.path.parent.name}/{run.path.name}" for run in firsts]
    return [
        ", ".join(f"{name.removeprefix('nodes.')}={values[index]}" for name, values in told.items())
        for index in range(len(firsts))
    ]


def _group(label: str, runs: Sequence[Run]) -> Group:
    names = dict.fromkeys(staleness for run in runs for staleness in run.staleness)
    return Group(
        label=label,
        runs=tuple(runs),
        figures={name: Spread.of(run.figures.get(name) for run in runs) for name in FIGURES},
        staleness={
            staleness: sum(run.staleness.get(staleness, 0.0) for run in runs) / len(runs)
            for staleness in sorted(names)
        },
    )


def _plain(spread: Spread | None) -> dict[str, Any] | None:
    return None if spread is None else asdict(spread)


def _curve(group: Group, key: tuple[str, str]) -> dict[str, Any]:
    steps, seconds = group.curves(key)
    return {
        "policy": key[0],
        "metric": key[1],
        "by_step": [{"step": int(step), **asdict(spread)} for step, spread in steps],
        "by_seconds": [{"seconds": at, **asdict(spread)} for at, spread in seconds],
    }
