"""What came of a run: one self-contained HTML page for people.

A pure function of the run directory's records, that can be made at any time, of a live run too.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final

from headrace.dataflow.record.curves import Curve, chart
from headrace.dataflow.record.history import Course, History, Line
from headrace.dataflow.record.rundir import RunDir
from headrace.dataflow.record.summary import shown, summary_of
from headrace.dataflow.record.telemetry import details

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


def write_html(run_dir: Path) -> Path:
    """Writes report.html into the run directory and returns its path. Raises RunDirError."""
    run = RunDir.open(run_dir)
    history = History.read(run_dir)
    figures = summary_of(history)
    page = filled(
        "report_template.html",
        title=escape(f"{run.path.parent.name}/{run.path.name}"),
        status=escape(figures["status"]),
        tiles=_tiles(figures),
        curves=_curves(history, figures.get("policies", {})),
        services=_services(history),
        events=_events(history.events),
    )
    run.report.write_text(page, encoding="utf-8")
    return run.report


def filled(template: str, **parts: str) -> str:
    """A page from a template beside this file, with the style sheet of all of them."""
    here = Path(__file__)
    style = here.with_name("report.css").read_text(encoding="utf-8")
    text = here.with_name(template).read_text(encoding="utf-8")
    return Template(text).substitute(style=style, **parts)


def _tiles(figures: dict[str, Any]) -> str:
    """The figures that are of the whole run."""
    alone = "policies" not in figures
    tiles = {
        **(_gains(figures) if alone else {"policies": str(len(figures["policies"]))}),
        "steps": shown(figures, "steps"),
        "seconds": shown(figures, "seconds"),
        "tokens/s": shown(figures, "tokens_per_s"),
        "staleness, largest": shown(figures, "staleness_max"),
        "violations": shown(figures, "staleness_violations"),
        "samples trained": shown(figures, "samples_trained"),
        "trained twice / lost": f"{shown(figures, 'samples_duplicated')} / {shown(figures, 'samples_lost')}",
    }
    return _list(tiles)


def _policy_tiles(own: dict[str, Any]) -> str:
    """The figures of one policy among several."""
    names = {
        "steps": "steps",
        "tokens/s": "tokens_per_s",
        "staleness, largest": "staleness_max",
        "samples trained": "samples_trained",
    }
    return f"<dl>{_list({**_gains(own), **{name: shown(own, key) for name, key in names.items()}})}</dl>"


def _gains(figures: dict[str, Any]) -> dict[str, str]:
    return {
        name: f"{shown(figures, f'{name}_first')} → {shown(figures, f'{name}_last')}"
        for name in ("exact", "reward")
    }


def _list(tiles: dict[str, str]) -> str:
    return "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in tiles.items())


def _curves(history: History, policies: dict[str, dict[str, Any]]) -> str:
    """A section for each policy, with its figures where there are several, and one for the evals."""
    if not policies:
        return _section("Curves", _charts(history.course())) + _evals(history)
    return "".join(
        _section(name, _charts(history.policies[name]), _policy_tiles(own)) for name, own in policies.items()
    ) + _evals(history)


def _section(title: str, charts: str, tiles: str = "") -> str:
    body = charts or "<p>No step has been recorded yet.</p>"
    return f'<h2>{escape(title)}</h2>{tiles}<div class="charts">{body}</div>'


def _charts(course: Course) -> str:
    charts = []
    for title, metrics in CHARTS.items():
        curves = [
            Curve(label=metric, points=points) for metric in metrics if (points := course.values(metric))
        ]
        if curves:
            charts.append(chart(title, curves))
    return "".join(charts)


def _evals(history: History) -> str:
    """Each figure of the evals over the versions, a curve for each eval that says it."""
    parts: dict[str, list[Curve]] = {}
    for name, course in history.evals.items():
        root = f"eval/{name}/"
        for metric in dict.fromkeys(m for line in course.lines for m in line if m.startswith(root)):
            if points := course.values(metric):
                label = f"{name} of {course.policy}"
                parts.setdefault(metric.removeprefix(root), []).append(Curve(label=label, points=points))
    return (
        _section("Evaluations", "".join(chart(part, curves) for part, curves in parts.items()))
        if parts
        else ""
    )


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
