"""A comparison for people: one self-contained HTML page, and a few lines for the terminal."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rich.console import Group as Together
from rich.console import RenderableType
from rich.table import Table

from headrace.dataflow.record.compare.comparison import Comparison, Group
from headrace.dataflow.record.compare.runs import FIGURES, Run
from headrace.dataflow.record.compare.spread import Line, Spread
from headrace.dataflow.record.curves import Curve, chart, figure
from headrace.dataflow.record.report import filled


def page(found: Comparison) -> str:
    """Settings that differ, figures by group, curves over steps and over time, staleness."""
    return filled(
        "compare_template.html",
        title=f"{len(found.runs)} runs",
        runs=_table(("run", *(group.label for group in found.groups)), _runs(found)),
        settings=_table(("setting", *(run.path.name for run in found.runs)), _settings(found)),
        figures=_table(("figure", *(group.label for group in found.groups)), _figures(found)),
        staleness=_table(("staleness", *(group.label for group in found.groups)), _staleness(found)),
        steps=_charts(found, 0, "training steps"),
        seconds=_charts(found, 1, "seconds"),
    )


def render(found: Comparison) -> RenderableType:
    """What the command prints."""
    settings = Table("setting", *(run.path.name for run in found.runs), box=None)
    figures = Table("figure", *(group.label for group in found.groups), box=None)
    for table, rows in ((settings, _settings(found)), (figures, _figures(found))):
        for row in rows:
            table.add_row(*row)
    return Together(*([settings, ""] if found.differences else []), figures)


def shown(spread: Spread | None) -> str:
    """A figure, with its spread where there are several runs."""
    if spread is None:
        return "?"
    return figure(spread.mean) + (f" ± {figure(spread.std)} (n={spread.n})" if spread.std is not None else "")


def _runs(found: Comparison) -> Iterable[Sequence[str]]:
    for run in found.runs:
        yield str(run.path), *(_status(run, group) for group in found.groups)


def _status(run: Run, group: Group) -> str:
    return str(run.figures["status"]) if any(run is each for each in group.runs) else ""


def _settings(found: Comparison) -> Iterable[Sequence[str]]:
    for name, values in found.differences.items():
        yield name, *(_written(value) for value in values)


def _figures(found: Comparison) -> Iterable[Sequence[str]]:
    for name in FIGURES:
        if any(group.figures[name] is not None for group in found.groups):
            yield name.replace("_", " "), *(shown(group.figures[name]) for group in found.groups)


def _staleness(found: Comparison) -> Iterable[Sequence[str]]:
    for staleness in sorted({each for group in found.groups for each in group.staleness}):
        yield str(staleness), *(f"{group.staleness.get(staleness, 0.0):.1%}" for group in found.groups)


def _charts(found: Comparison, which: int, over: str) -> str:
    charts = []
    for key in found.keys:
        curves = [
            _curve(group.label, line, colour)
            for colour, group in enumerate(found.groups)
            if (line := group.curves(key)[which])
        ]
        if curves:
            charts.append(chart(": ".join(filter(None, key)), curves, over=over))
    return "".join(charts) or "<p>No step has been recorded yet.</p>"


def _curve(label: str, line: Line, colour: int) -> Curve:
    spread = [each.std or 0.0 for _, each in line]
    points = [(x, each.mean) for x, each in line]
    return Curve(label=label, points=points, spread=spread if any(spread) else (), colour=colour)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(each)}</td>" for each in rest)}</tr>'
        for first, *rest in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>" if body else "<p>None.</p>"


def _written(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
