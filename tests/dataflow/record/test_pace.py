"""Rows a second, from counts that replicas report."""

from typing import Any

from headrace.dataflow.record.pace import Pace
from headrace.dataflow.record.telemetry import METRICS, Record


def said(source: str, at: float, step: int | None = None, **body: Any) -> Record:
    return Record(source=source, kind=METRICS, at=at, step=step, body=body)


def test_rows_of_all_replicas_of_a_node_add_up_over_the_window() -> None:
    pace = Pace(window_s=10.0)
    for at in range(0, 22, 2):
        pace.take(said("answers/0", float(at), rows_done=float(at * 3)))
        pace.take(said("answers/1", float(at), rows_done=float(at)))
    assert pace.rates(20.0) == {"answers": 4.0}
    assert pace.rates(25.0) == {"answers": 2.4}
    assert pace.rates(40.0) == {"answers": 0.0}


def test_a_node_that_began_within_the_window_is_measured_since_then() -> None:
    pace = Pace(window_s=30.0)
    pace.take(said("answers/0", 100.0, rows_done=0.0))
    assert pace.rates(100.0) == {"answers": 0.0}
    pace.take(said("answers/0", 102.0, rows_done=8.0))
    assert pace.rates(104.0) == {"answers": 2.0}


def test_a_count_that_falls_is_that_of_a_new_life() -> None:
    pace = Pace(window_s=10.0)
    pace.take(said("scores/0", 0.0, rows_done=50.0))
    pace.take(said("scores/0", 2.0, rows_done=60.0))
    pace.take(said("scores/0", 4.0, rows_done=6.0))
    assert pace.rates(8.0) == {"scores": 2.0}


def test_a_trainer_counts_the_rows_of_its_steps_and_a_source_its_prompts() -> None:
    pace = Pace(window_s=10.0)
    pace.take(said("learn/0", 10.0, busy=0.5))
    pace.take(said("learn/0", 10.0, 0, **{"samples/trained": 16.0}))
    pace.take(said("learn/0", 15.0, 1, **{"samples/trained": 16.0}))
    pace.take(said("prompts/0", 10.0, None, **{"data/prompts_written": 4.0}))
    pace.take(said("prompts/0", 12.0, None, **{"data/prompts_written": 24.0}))
    assert pace.rates(18.0) == {"learn": 4.0, "prompts": 2.5}
