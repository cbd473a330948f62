"""What came of a run: one object of figures for scripts, one self-contained HTML page for people.

Both are pure functions of the run directory's records and can be made at any time, of a live run too.
"""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final

from headrace.dataflow.record.curves import Curve, chart, figure
from headrace.dataflow.record.history import History, Line
from headrace.dataflow.record.rundir import RunDir
from headrace.dataflow.record.telemetry import details

FIRST_OR_LAST_STEPS: Final = 5
"""Steps over which `*_first` and `*_last` are means."""
MAX_EVENTS: Final = 40
"""Newest events shown on the page."""

CHARTS: Final[dict[str, tuple[str, ...]]] = {
    "Reward": ("reward/mean",),
    "Exact": ("reward/exact",),
    "Loss": ("actor/pg_loss",),
    "Learning rate": ("actor/lr",),
    "Staleness": ("staleness/mean", "staleness/max"),
    "Tokens per second": ("perf/tokens_per_s",),
    "Response length": ("response_length/mean", "response_length/p99"),
    "Truncated": ("truncated_frac",),
    "Gradient norm": ("actor/grad_norm",),
    "KL to the policy before the step": ("actor/ppo_kl",),
    "Clipped tokens": ("actor/pg_clipfrac",),
    "Log-probability, trainer against rollout": ("mismatch/logprob_abs_diff",),
    "Groups without a signal": ("group/zero_std_frac",),
    "Step time (s)": ("perf/step_time",),
}
ACTIVITIES: Final[dict[str, str]] = {
    "busy": "busy",
    "idle_wait_data": "waits for data",
    "idle_wait_weights": "waits for weights",
    "paused": "paused",
}


def summary(run_dir: Path) -> dict[str, Any]:
    """The run in one object; None where the run has no such figure. Raises RunDirError."""
    return _summary(History.read(run_dir))


def _summary(history: History) -> dict[str, Any]:
    reward, exact = history.values("reward/mean"), history.values("reward/exact")
    return {
        "status": history.status,
        "steps": len(history.steps),
        "seconds": history.seconds,
        "reward_first": _mean(reward[:FIRST_OR_LAST_STEPS]),
        "reward_last": _mean(reward[-FIRST_OR_LAST_STEPS:]),
        "exact_first": _mean(exact[:FIRST_OR_LAST_STEPS]),
        "exact_last": _mean(exact[-FIRST_OR_LAST_STEPS:]),
        "staleness_max": max((value for _, value in history.values("staleness/max")), default=None),
        "staleness_violations": _count(history, "staleness/violations"),
        "samples_trained": _count(history, "samples/trained"),
        "samples_duplicated": history.queue_total("duplicated"),
        "samples_lost": history.queue_total("lost"),
        "tokens_per_s": _tokens_per_s(history.steps),
        "busy": {node: _share(lines, "busy") for node, lines in history.by_service().items()},
    }


def _mean(points: Sequence[tuple[int, float]]) -> float | None:
    return math.fsum(value for _, value in points) / len(points) if points else None


def _count(history: History, metric: str) -> int:
    """Sum of a step's count over the steps."""
    return round(math.fsum(value for _, value in history.values(metric)))


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


def write_html(run_dir: Path) -> Path:
    """Writes report.html into the run directory and returns its path. Raises RunDirError."""
    run = RunDir.open(run_dir)
    history = History.read(run_dir)
    template = Template(Path(__file__).with_name("report_template.html").read_text(encoding="utf-8"))
    figures = _summary(history)
    page = template.substitute(
        title=escape(f"{run.path.parent.name}/{run.path.name}"),
        status=escape(figures["status"]),
        tiles=_tiles(figures),
        charts=_charts(history),
        services=_services(history),
        events=_events(history.events),
    )
    run.report.write_text(page, encoding="utf-8")
    return run.report


def _tiles(figures: dict[str, Any]) -> str:
    tiles = {
        "exact": f"{shown(figures, 'exact_first')} → {shown(figures, 'exact_last')}",
        "reward": f"{shown(figures, 'reward_first')} → {shown(figures, 'reward_last')}",
        "steps": shown(figures, "steps"),
        "seconds": shown(figures, "seconds"),
        "tokens/s": shown(figures, "tokens_per_s"),
        "staleness, largest": shown(figures, "staleness_max"),
        "violations": shown(figures, "staleness_violations"),
        "samples trained": shown(figures, "samples_trained"),
        "trained twice / lost": f"{shown(figures, 'samples_duplicated')} / {shown(figures, 'samples_lost')}",
    }
    return "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in tiles.items())


def shown(figures: dict[str, Any], key: str) -> str:
    """A figure of the summary for people; "?" where it is not known."""
    return "?" if figures[key] is None else figure(figures[key])


def closing(figures: dict[str, Any], page: Path) -> str:
    """The summary in four lines, for the end of a run in the terminal; `page` is where the report lies."""

    def from_to(name: str) -> str:
        return f"{name} {shown(figures, f'{name}_first')} -> {shown(figures, f'{name}_last')}"

    return "\n".join(
        (
            f"{figures['status']}: {figures['steps']} steps in {figures['seconds']:.1f} s,"
            f" {shown(figures, 'tokens_per_s')} tokens/s",
            f"{from_to('exact')}, {from_to('reward')}",
            f"samples: {figures['samples_trained']} trained, {shown(figures, 'samples_duplicated')} twice,"
            f" {shown(figures, 'samples_lost')} lost; staleness at most {shown(figures, 'staleness_max')},"
            f" {figures['staleness_violations']} violations",
            f"report: {page}",
        )
    )


def _charts(history: History) -> str:
    charts = []
    for title, metrics in CHARTS.items():
        curves = [
            Curve(label=metric, points=points) for metric in metrics if (points := history.values(metric))
        ]
        if curves:
            charts.append(chart(title, curves))
    return "".join(charts) or "<p>No step has been recorded yet.</p>"


def _services(history: History) -> str:
    rows = []
    for replica, line in sorted(history.services.items()):
        shares = {name: line.get(name) or 0.0 for name in ACTIVITIES}
        bar = "".join(f'<i class="{name}" style="width:{100 * s:.2f}%"></i>' for name, s in shares.items())
        cells = "".join(f'<td class="number">{100 * share:.1f} %</td>' for share in shares.values())
        rows.append(
            f'<tr><th scope="row">{escape(replica)}</th><td><div class="bar">{bar}</div></td>{cells}</tr>'
        )
    head = "".join(
        f'<th scope="col" class="number"><i class="{k}"></i> {v}</th>' for k, v in ACTIVITIES.items()
    )
    return (
        '<table><thead><tr><th scope="col">replica</th><th scope="col">share of time</th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _events(events: Sequence[Line]) -> str:
    """The newest events, the newest first, with seconds since the first one."""
    rows = []
    for event in reversed(events[-MAX_EVENTS:]):
        detail = details({k: v for k, v in event.items() if k not in ("time", "event", "source")})
        rows.append(
            f'<tr><td class="number">{event["time"] - events[0]["time"]:.1f} s</td>'
            f'<th scope="row">{escape(str(event["source"]))}</th>'
            f'<td>{escape(str(event["event"]))}</td><td class="detail">{escape(detail)}</td></tr>'
        )
    return (
        '<table><thead><tr><th scope="col">at</th><th scope="col">source</th><th scope="col">event</th>'
        f'<th scope="col">detail</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )
