import math
from typing import Any

from headrace.dataflow.record.telemetry import METRICS, SAMPLES, SCORES, Record
from headrace.dataflow.record.trackers.points import Point, Points


def record(
    source: str, kind: str = METRICS, *, step: int | None = None, policy: str = "", **body: Any
) -> Record:
    return Record(source=source, kind=kind, at=7.0, step=step, policy=policy, body=body)


def test_figures_of_the_only_policy_keep_their_names() -> None:
    found = Points(1).of(record("learn/0", step=3, policy="actor", **{"reward/mean": 0.5, "actor/frozen": 1}))
    assert found == Point(step=3, at=7.0, figures={"reward/mean": 0.5, "actor/frozen": 1.0})


def test_of_several_policies_each_is_named() -> None:
    found = Points(2).of(record("learn/0", step=3, policy="solver", loss=0.5))
    assert found == Point(step=3, at=7.0, figures={"solver/loss": 0.5})


def test_a_replicas_figures_stand_at_the_newest_step_and_are_left_out_before_the_first() -> None:
    points, busy = Points(1), record("answers/0", busy=0.25)
    assert points.of(busy) is None
    points.of(record("learn/0", step=4, policy="actor", loss=1.0))
    assert points.of(busy) == Point(step=4, at=7.0, figures={"answers/0/busy": 0.25})


def test_scores_of_an_eval_stand_at_the_version_and_move_no_step() -> None:
    points = Points(2)
    scores = record("held_out/0", SCORES, step=20, policy="actor", **{"eval/held_out/reward": 0.75})
    assert points.of(scores) == Point(step=20, at=7.0, figures={"eval/held_out/reward": 0.75})
    assert points.of(record("answers/0", busy=0.25)) is None


def test_what_is_no_finite_number_is_no_figure() -> None:
    points = Points(1)
    assert points.of(record("learn/0", step=1, loss=math.nan, worst=math.inf, note="x")) is None
    assert points.of(record("launch", "run_started", first_step=3)) is None
    assert points.of(record("learn/0", SAMPLES, policy="actor", reward=0.5)) is None
