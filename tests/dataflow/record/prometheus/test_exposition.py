"""What Prometheus reads of a launch, and that its names are those that docs/metrics.md and Grafana know."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.dataflow.record.board import Board
from headrace.dataflow.record.prometheus.exposition import exposition, of_service
from headrace.dataflow.record.telemetry import METRICS, SCORES, Record
from headrace.transferqueue import Stats

DOCS = Path(__file__).parents[4] / "docs"
SUFFIXES = ("_sum", "_count", "_total")


def record(
    source: str, kind: str = METRICS, *, step: int | None = None, policy: str = "", **body: Any
) -> Record:
    return Record(source=source, kind=kind, at=1.0, step=step, policy=policy, body=body)


@pytest.fixture
def board() -> Board:
    board = Board()
    shares: dict[str, Any] = {"busy": 0.5, "idle_wait_data": 0.5, "sync/seconds": 0.5}
    for one in (
        record("launch", "started", replica="answers/0", pid=7, restarts=0),
        record("answers/0", "state", old="loading", new="ready", reason=""),
        record("answers/0", METRICS, alive_s=8.0, rows_done=4.0, in_flight=2.0, **shares),
        record("learn/0", METRICS, step=0, policy="actor", **{"reward/mean": 0.5, "perf/step_time": 2.0}),
        record("held_out/0", SCORES, step=20, policy="actor", **{"eval/held_out/reward": 0.75}),
    ):
        board.take(one)
    return board


@pytest.fixture
def stats() -> Stats:
    return Stats(
        tables={},
        policies={"actor": 1},
        segments=0,
        segment_bytes=0,
        clients=1,
        waiting=0,
        forgotten=0,
        malformed=0,
    )


def read(text: str) -> dict[tuple[str, ...], float]:
    """By name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_launch_is_read_with_its_training_its_replicas_and_its_queue(board: Board, stats: Stats) -> None:
    found = read(exposition(board, board.newest, stats, {"actor": 10}))
    assert found["headrace_step", "actor"] == 1
    assert found["headrace_steps_asked", "actor"] == 10
    assert found["headrace_training", "reward/mean", "actor"] == 0.5
    assert found["headrace_step_seconds_sum", "actor"] == 2.0
    assert found["headrace_step_seconds_count", "actor"] == 1.0
    assert found["headrace_eval", "held_out", "reward", "actor"] == 0.75
    assert found["headrace_eval_version", "held_out", "actor"] == 20
    assert found["headrace_policy_version", "actor"] == 1
    assert found["headrace_events_total", "started", "launch"] == 1
    replica = ("answers/0", "answers")
    assert found["headrace_replica_state", *replica, "ready"] == 1
    assert found["headrace_replica_state", *replica, "failed"] == 0
    assert found["headrace_replica_time_share", "busy", *replica] == 0.5
    assert found["headrace_replica_seconds_total", "busy", *replica] == 4.0
    assert found["headrace_replica_starts_total", *replica] == 1
    assert found["headrace_replica_rows_total", *replica] == 4
    assert found["headrace_replica_in_flight", *replica] == 2
    assert found["headrace_replica", "sync/seconds", *replica] == 0.5


def test_one_service_is_read_alone(board: Board) -> None:
    board.take(record("launch", "started", replica="scores/0", pid=8, restarts=0))
    found = of_service(board, board.newest, "answers")
    assert "answers/0" in found and "scores/0" not in found and "headrace_training" not in found


def families(text: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\w+) ", text, flags=re.M))


def documented() -> set[str]:
    section = (DOCS / "metrics.md").read_text().split("## For Prometheus")[1]
    return set(re.findall(r"`(headrace_\w+)`", section))


def test_every_name_is_documented_and_every_documented_name_is_exported(board: Board, stats: Stats) -> None:
    assert families(exposition(board, board.newest, stats, {"actor": 10})) == documented()


def test_every_query_of_the_grafana_dashboard_names_what_is_exported() -> None:
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    named = {name for query in queries for name in re.findall(r"headrace_\w+", query)}
    known = documented()
    summaries = {f"{name}{suffix}" for name in known for suffix in ("_sum", "_count")}
    assert len(queries) >= 12
    assert named <= known | summaries
