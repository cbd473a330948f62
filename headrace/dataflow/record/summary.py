"""What came of a run, in figures: one object for scripts, a few lines for the end of a run in the terminal.

Pure functions of the run directory's records, of a live run's too. Where several policies are trained, the
object's own figures are those that add up, and each policy's stand under `policies`.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headrace.dataflow.record.curves import figure
from headrace.dataflow.record.history import Course, History, Line

FIRST_OR_LAST_STEPS: Final = 5
"""Steps over which `*_first` and `*_last` are means."""

Figures = dict[str, Any]


def summary(run_dir: Path) -> Figures:
    """The run in one object; None where the run has no such figure. Raises RunDirError."""
    return summary_of(History.read(run_dir))


def summary_of(history: History) -> Figures:
    policies = {name: _course(course) for name, course in history.policies.items()}
    several = len(policies) > 1
    return {
        "status": history.status,
        "seconds": history.seconds,
        **(_together(list(policies.values())) if several else _course(history.course())),
        "samples_duplicated": history.queue_total("duplicated"),
        "samples_lost": history.queue_total("lost"),
        "busy": {node: _share(lines, "busy") for node, lines in history.by_service().items()},
        **({"policies": policies} if several else {}),
        **({"evals": {n: _scores(n, c) for n, c in history.evals.items()}} if history.evals else {}),
    }


def _course(course: Course) -> Figures:
    """Figures of one policy."""
    reward, exact = course.values("reward/mean"), course.values("reward/exact")
    return {
        "steps": len(course.lines),
        "reward_first": _mean(reward[:FIRST_OR_LAST_STEPS]),
        "reward_last": _mean(reward[-FIRST_OR_LAST_STEPS:]),
        "exact_first": _mean(exact[:FIRST_OR_LAST_STEPS]),
        "exact_last": _mean(exact[-FIRST_OR_LAST_STEPS:]),
        "staleness_max": max((value for _, value in course.values("staleness/max")), default=None),
        "staleness_violations": _count(course, "staleness/violations"),
        "samples_trained": _count(course, "samples/trained"),
        "tokens_per_s": _tokens_per_s(course.lines),
    }


def _together(policies: Sequence[Figures]) -> Figures:
    """Figures of several policies; rewards of different policies have no mean."""

    def known(name: str) -> list[float]:
        return [figures[name] for figures in policies if figures[name] is not None]

    return {
        "steps": sum(known("steps")),
        **dict.fromkeys(("reward_first", "reward_last", "exact_first", "exact_last")),
        "staleness_max": max(known("staleness_max"), default=None),
        "staleness_violations": sum(known("staleness_violations")),
        "samples_trained": sum(known("samples_trained")),
        "tokens_per_s": math.fsum(known("tokens_per_s")) if known("tokens_per_s") else None,
    }


def _scores(name: str, course: Course) -> Figures:
    """What an eval said of the first and of the last version that it scored."""

    def said(line: Line) -> Figures:
        root = f"eval/{name}/"
        return {metric.removeprefix(root): value for metric, value in line.items() if metric.startswith(root)}

    return {
        "policy": course.policy,
        "versions": [line["version"] for line in course.lines],
        "first": said(course.lines[0]),
        "last": said(course.lines[-1]),
    }


def _mean(points: Sequence[tuple[int, float]]) -> float | None:
    return math.fsum(value for _, value in points) / len(points) if points else None


def _count(course: Course, metric: str) -> int:
    """Sum of a step's count over the steps."""
    return round(math.fsum(value for _, value in course.values(metric)))


def _tokens_per_s(steps: Sequence[Line]) -> float | None:
    """All tokens over all time: each step's rate, weighted by its time."""
    known = [
        (line["perf/tokens_per_s"], line["perf/step_time"])
        for line in steps
        if line.get("perf/tokens_per_s") is not None and line.get("perf/step_time") is not None
    ]
    seconds = math.fsum(time for _, time in known)
    return math.fsum(rate * time for rate, time in known) / seconds if seconds > 0 else None


def _share(replicas: Sequence[Line], activity: str) -> float | None:
    """Mean over the replicas that say it."""
    shares = [line[activity] for line in replicas if line.get(activity) is not None]
    return math.fsum(shares) / len(shares) if shares else None


def shown(figures: Figures, key: str) -> str:
    """A figure of the summary for people; "?" where it is not known."""
    return "?" if figures.get(key) is None else figure(figures[key])


def closing(figures: Figures, page: Path) -> str:
    """The summary in a few lines, for the end of a run in the terminal; `page` is where the report lies."""
    policies = figures.get("policies", {})
    of = f" of {len(policies)} policies" if policies else ""
    return "\n".join(
        (
            f"{figures['status']}: {figures['steps']} steps{of} in {figures['seconds']:.1f} s,"
            f" {shown(figures, 'tokens_per_s')} tokens/s",
            *(_policy_line(name, own) for name, own in policies.items()),
            *([] if policies else [_from_to(figures)]),
            *(_eval_line(name, own) for name, own in figures.get("evals", {}).items()),
            f"samples: {figures['samples_trained']} trained, {shown(figures, 'samples_duplicated')} twice,"
            f" {shown(figures, 'samples_lost')} lost; staleness at most {shown(figures, 'staleness_max')},"
            f" {figures['staleness_violations']} violations",
            f"report: {page}",
        )
    )


def _from_to(figures: Figures) -> str:
    return ", ".join(
        f"{name} {shown(figures, f'{name}_first')} -> {shown(figures, f'{name}_last')}"
        for name in ("exact", "reward")
    )


def _policy_line(name: str, own: Figures) -> str:
    return f"{name}: {own['steps']} steps, {_from_to(own)}, staleness at most {shown(own, 'staleness_max')}"


def _eval_line(name: str, own: Figures) -> str:
    first, last = own["first"], own["last"]
    figures = ", ".join(
        f"{part} {shown(first, part)} -> {shown(last, part)}" for part in ("exact", "reward") if part in last
    )
    versions = own["versions"]
    return f"{name}: {figures} from version {versions[0]} to {versions[-1]} of {own['policy']}"
