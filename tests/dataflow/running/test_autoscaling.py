"""How many replicas a service should have, at hand-set looks, and what is asked of a launch for it."""

from typing import Any

from headrace.dataflow.record.board import Board
from headrace.dataflow.record.telemetry import METRICS, Record
from headrace.dataflow.running.autoscaled import Looks
from headrace.dataflow.running.autoscaling import Autoscaling, Decision, Look
from headrace.services.options.placed import AutoscaleOptions

OPTIONS = AutoscaleOptions(min=1, max=4, target=0.8, cool_down_s=60.0)


def look(at_s: float, replicas: int, busy: float, ready: int = 8) -> Look:
    return Look(at_s=at_s, replicas=replicas, busy=busy, ready=ready)


def test_busy_replicas_with_rows_that_wait_get_another() -> None:
    scaling = Autoscaling(OPTIONS, at_s=0.0)
    assert scaling.decide(look(30, 2, 1.0)) is None, "the cool-down has just begun"
    assert scaling.decide(look(60, 2, 1.0)) == Decision(
        replicas=3, why="100% busy of 2 replicas, target 80%; 8 rows wait"
    )
    scaling.changed(60)
    assert scaling.decide(look(119, 3, 1.0)) is None
    assert scaling.decide(look(120, 3, 1.0)) == Decision(
        replicas=4, why="100% busy of 3 replicas, target 80%; 8 rows wait"
    )
    scaling.changed(120)
    assert scaling.decide(look(400, 4, 1.0)) is None, "four are the most"


def test_busy_replicas_for_which_nothing_waits_get_none() -> None:
    assert Autoscaling(OPTIONS, at_s=0.0).decide(look(60, 2, 1.0, ready=0)) is None


def test_near_the_target_nothing_changes() -> None:
    scaling = Autoscaling(OPTIONS, at_s=0.0)
    assert [scaling.decide(look(60 + at, 3, busy)) for at, busy in ((0, 0.73), (5, 0.87))] == [None, None]


def test_idle_replicas_go_once_they_were_idle_for_all_of_the_cool_down() -> None:
    scaling = Autoscaling(OPTIONS, at_s=0.0)
    assert scaling.decide(look(60, 4, 0.8)) is None
    assert scaling.decide(look(65, 4, 0.2)) is None, "a minute ago four were needed"
    assert scaling.decide(look(120, 4, 0.4)) is None
    assert scaling.decide(look(121, 4, 0.2)) == Decision(
        replicas=2, why="20% busy of 4 replicas, target 80%; so for 60 s"
    )


def test_a_service_without_work_keeps_its_fewest() -> None:
    scaling = Autoscaling(OPTIONS, at_s=0.0)
    assert scaling.decide(look(60, 4, 0.0)) == Decision(
        replicas=1, why="0% busy of 4 replicas, target 80%; so for 60 s"
    )


def test_a_look_counts_what_replicas_did_since_the_last() -> None:
    board = Board()

    def said(at: float, kind: str, source: str, **body: Any) -> None:
        board.take(Record(source=source, kind=kind, at=at, step=None, body=body))

    def busy(at: float, source: str, share: float) -> None:
        shares = {"busy": share, "idle_wait_data": 1 - share, "idle_wait_weights": 0.0, "paused": 0.0}
        said(at, METRICS, source, **shares)

    for name in ("answers/0", "answers/1", "scores/0"):
        said(100.0, "started", "launch", replica=name, pid=7, restarts=0)
        said(100.0, "state", name, old="loading", new="ready", reason="")
    looks = Looks(board)
    assert looks.busy("answers") == (2, None)
    busy(110.0, "answers/0", 0.5)
    assert looks.busy("answers") == (2, 0.5)
    busy(120.0, "answers/0", 0.75)
    busy(120.0, "answers/1", 0.5)
    busy(120.0, "scores/0", 0.0)
    assert looks.busy("answers") == (2, 0.75), "10 of 10 s, and 10 of 20 s"
    said(130.0, "started", "launch", replica="answers/0", pid=8, restarts=1)
    said(130.0, "state", "answers/0", old="loading", new="ready", reason="")
    busy(140.0, "answers/0", 0.25)
    assert looks.busy("answers") == (2, 0.25), "a new life begins anew, and the other has said nothing"
