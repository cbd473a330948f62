"""Draws the reward of a recorded run as a standalone SVG: `python docs/draw_curve.py METRICS.jsonl OUT.svg`.

The curve is the report's own; the colours that a page would give it are set in the picture.
"""

import re
import sys
from pathlib import Path

from headrace.dataflow.record.curves import HEIGHT, WIDTH, Curve, chart
from headrace.dataflow.record.history import History
from headrace.dataflow.record.rundir import read_jsonl

METRICS = ("reward/mean", "reward/exact")
LEGEND_HEIGHT = 18
COLOURS = ("#1766b8", "#c2571a")
STYLE = (
    "svg{background:#fff}"
    "text{font:11px system-ui,sans-serif;fill:#5c6878}"
    ".grid{stroke:#dfe3e9}.spot{fill:none}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    + "".join(
        f".line.k{number}{{stroke:{colour}}}.end.k{number},.name.k{number}{{fill:{colour}}}"
        for number, colour in enumerate(COLOURS)
    )
)


def picture(history: History) -> str:
    """One SVG with a curve of each of METRICS. Raises ValueError where the run has none of one."""
    curves = [Curve(label=metric, points=_points(history, metric)) for metric in METRICS]
    drawn = re.search(r"<svg[^>]*>(.*)</svg>", chart("Reward", curves), re.DOTALL)
    if drawn is None:
        raise ValueError("the chart holds no SVG; headrace.dataflow.record.curves has changed")
    names = "".join(
        f'<text class="name k{number}" x="{46 + 110 * number}" y="13">{metric}</text>'
        for number, metric in enumerate(METRICS)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + LEGEND_HEIGHT}" '
        f'width="{2 * WIDTH}" role="img" aria-label="Reward over training steps"><style>{STYLE}</style>'
        f'{names}<g transform="translate(0 {LEGEND_HEIGHT})">{drawn[1]}</g></svg>\n'
    )


def _points(history: History, metric: str) -> list[tuple[float, float]]:
    course = history.course()
    points = [(float(step), value) for step, value in course.values(metric)]
    if not points:
        raise ValueError(f"the run recorded no {metric}; it recorded {len(course.lines)} steps")
    return points


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} METRICS.jsonl OUT.svg")
    metrics, out = map(Path, sys.argv[1:])
    out.write_text(picture(History.of(read_jsonl(metrics).records, [])), encoding="utf-8")


if __name__ == "__main__":
    main()
