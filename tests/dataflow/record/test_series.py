"""Curves of a live run, in bounded memory."""

from headrace.dataflow.record.history import History
from headrace.dataflow.record.series import Curve, Series
from headrace.dataflow.record.telemetry import METRICS, SCORES, Record


def test_a_full_curve_goes_on_with_twice_the_steps_to_a_point() -> None:
    curve = Curve(most=4)
    for step in range(4):
        curve.add(step, float(step))
    assert curve.points() == [(1, 0.5), (3, 2.5)]
    curve.add(4, 10.0)
    assert curve.points() == [(1, 0.5), (3, 2.5), (4, 10.0)]
    curve.add(5, 20.0)
    assert curve.points() == [(1, 0.5), (3, 2.5), (5, 15.0)]


def test_a_curve_never_has_more_points_than_it_may() -> None:
    curve = Curve(most=8)
    sizes = []
    for step in range(1000):
        curve.add(step, 1.0)
        sizes.append(len(curve.points()))
    assert max(sizes) == 8
    assert curve.points()[-1] == (999, 1.0)


def test_a_step_that_comes_again_begins_the_curve_anew_from_there() -> None:
    curve = Curve(most=8)
    for step in range(5):
        curve.add(step, float(step))
    curve.add(2, 20.0)
    curve.add(3, 30.0)
    assert curve.points() == [(0, 0.0), (1, 1.0), (2, 20.0), (3, 30.0)]


def test_metrics_of_steps_and_of_evals_stand_under_their_policy() -> None:
    series = Series()
    series.take(Record(source="learn/0", kind=METRICS, at=0.0, step=0, body={"a/b": 1.0}, policy="actor"))
    series.take(Record(source="learn/0", kind=METRICS, at=0.0, step=None, body={"busy": 1.0}))
    series.take(
        Record(source="held/0", kind=SCORES, at=0.0, step=4, body={"eval/held/reward": 0.5}, policy="actor")
    )
    assert series.names() == {"actor": ["a/b", "eval/held/reward"]}
    assert series.points("actor", ["eval/held/reward", "nope"]) == {"eval/held/reward": [(4, 0.5)]}
    assert series.points("nobody", ["a/b"]) == {}


def test_a_run_that_goes_on_keeps_the_curves_of_its_earlier_launches() -> None:
    lines = [
        {"step": 0, "policy": "actor", "time": 1.0, "reward/mean": 0.25, "truncated_frac": 0.5},
        {"step": 1, "policy": "actor", "time": 2.0, "reward/mean": None},
    ]
    series = Series.of(History.of(lines, []))
    assert series.names() == {"actor": ["reward/mean", "truncated_frac"]}
    assert series.points("actor", ["reward/mean"]) == {"reward/mean": [(0, 0.25)]}
