"""Draws curves of a recorded run as a standalone SVG.

    python docs/draw_curve.py METRICS.jsonl OUT.svg                                   reward and exact
    python docs/draw_curve.py METRICS.jsonl OUT.svg solver:reward/exact verifier:reward/mean

Of several policies each metric is named with its policy before it. The curve is the report's own; the colours
that a page would give it are set in the picture.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.dataflow.record.curves import HEIGHT, WIDTH, Curve, chart
from headrace.dataflow.record.history import History
from headrace.dataflow.record.rundir import read_jsonl

METRICS = ("reward/mean", "reward/exact")
NAME_HEIGHT = 14
"""Of a line of the legend, which has one for each curve."""
COLOURS = ("#1766b8", "#c2571a", "#3d8b5f", "#8a4fb0")
STYLE = (
    "svg{background:#fff}"
    "text{font:11px system-ui,sans-serif;fill:#5c6878}"
    ".grid{stroke:#dfe3e9}.spot{fill:none}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    + "".join(
        f".line.k{number}{{stroke:{colour}}}.end.k{number},.name.k{number}{{fill:{colour}}}"
        for number, colour in enumerate(COLOURS)
    )
)


def picture(history: History, metrics: Sequence[str] = METRICS) -> str:
    """One SVG with a curve of each metric. Raises ValueError where the run has none of one."""
    curves = [Curve(label=metric, points=_points(history, metric)) for metric in metrics]
    drawn = re.search(r"<svg[^>]*>(.*)</svg>", chart("Reward", curves), re.DOTALL)
    if drawn is None:
        raise ValueError("the chart holds no SVG; headrace.dataflow.record.curves has changed")
    legend = NAME_HEIGHT * len(metrics) + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + legend}" '
        f'width="{2 * WIDTH}" role="img" aria-label="Reward over training steps"><style>{STYLE}</style>'
        f'{_names(metrics)}<g transform="translate(0 {legend})">{drawn[1]}</g></svg>\n'
    )


def _names(metrics: Sequence[str]) -> str:
    return "".join(
        f'<text class="name k{number}" x="46" y="{NAME_HEIGHT * (number + 1) - 2}">{metric}</text>'
        for number, metric in enumerate(metrics)
    )


def _points(history: History, metric: str) -> list[tuple[float, float]]:
    policy, _, name = metric.rpartition(":")
    course = history.course(policy or None)
    points = [(float(step), value) for step, value in course.values(name)]
    if not points:
        raise ValueError(f"the run recorded no {metric}; it recorded {len(course.lines)} steps")
    return points


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} METRICS.jsonl OUT.svg [[POLICY:]METRIC ...]")
    records, out = map(Path, sys.argv[1:3])
    history = History.of(read_jsonl(records).records, [])
    out.write_text(picture(history, sys.argv[3:] or METRICS), encoding="utf-8")


if __name__ == "__main__":
    main()
