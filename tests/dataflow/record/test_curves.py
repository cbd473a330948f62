from xml.etree import ElementTree

import pytest

from headrace.dataflow.record.curves import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Curve,
    chart,
    figure,
    round_ticks,
    thinned,
)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0.0, 0.5, 1.0]),
        (0.0, 0.8, [0.0, 0.2, 0.4, 0.6, 0.8]),
        (-0.03, 0.04, [-0.04, -0.02, 0.0, 0.02, 0.04]),
        (0.0, 6800.0, [0.0, 2000.0, 4000.0, 6000.0, 8000.0]),
        (0.0, 0.0, [0.0, 0.5, 1.0]),
    ],
)
def test_ticks_are_round_and_hold_the_data(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == ticks


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.12345, "0.123"),
        (1e-6, "1e-06"),
        (123.4, "123"),
        (9999, "9999"),
        (30720, "30.7k"),
        (2.5e7, "25M"),
    ],
)
def test_figures_are_short(value: float, text: str) -> None:
    assert figure(value) == text


def test_many_points_become_means_of_runs() -> None:
    points = [(float(x), float(x)) for x in range(10)]
    assert thinned(points, 5) == [(1.0, 0.5), (3.0, 2.5), (5.0, 4.5), (7.0, 6.5), (9.0, 8.5)]
    assert thinned(points, 10) == points


def test_a_curve_runs_from_corner_to_corner_of_the_frame() -> None:
    markup = chart("Reward", [Curve(label="reward/mean", points=[(0, 0.0), (5, 0.5), (10, 1.0)])])
    line = ElementTree.fromstring(markup).find(".//polyline")
    assert line is not None
    right, bottom = float(WIDTH - RIGHT), float(HEIGHT - BOTTOM)
    middle = f"{(LEFT + right) / 2},{(TOP + bottom) / 2}"
    assert line.get("points") == f"{float(LEFT)},{bottom} {middle} {right},{float(TOP)}"


def test_foreign_text_is_escaped_and_one_point_is_a_chart() -> None:
    markup = chart("<Loss>", [Curve(label="a&b", points=[(3, -2.0)])])
    figures = ElementTree.fromstring(markup)
    assert figures.findtext("./figcaption/strong") == "<Loss>"
    assert [t.text for t in figures.iter("title")] == ["a&b, step 3: -2"]


def test_a_band_reaches_to_both_sides_of_its_curve_and_into_the_frame() -> None:
    markup = chart(
        "Reward", [Curve(label="r", points=[(0, 0.0), (10, 1.0)], spread=[0.0, 1.0])], over="seconds"
    )
    figure = ElementTree.fromstring(markup)
    (band,) = figure.iter("polygon")
    right, middle, bottom = WIDTH - RIGHT, (TOP + HEIGHT - BOTTOM) / 2, HEIGHT - BOTTOM
    assert band.get("points") == (
        f"{LEFT:.1f},{bottom:.1f} {right:.1f},{TOP:.1f} {right:.1f},{bottom:.1f} {LEFT:.1f},{bottom:.1f}"
    )
    assert f"{right:.1f},{middle:.1f}" in str(next(iter(figure.iter("polyline"))).get("points"))
    assert 'aria-label="Reward over seconds"' in markup and "r, second 10: 1" in markup


def test_the_band_of_a_long_curve_is_thinned_with_it() -> None:
    curve = Curve(label="r", points=[(n, 1.0) for n in range(1000)], spread=[2.0] * 1000).thinned()
    assert len(curve.points) == len(curve.spread) == 200
    assert set(curve.spread) == {2.0}
