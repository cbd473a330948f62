"""A launch's trackers: what is said of one that fails, and that it harms nothing."""

import sys
from functools import partial
from pathlib import Path

import pytest

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.record.telemetry import METRICS, Record, Speakers, Telemetry
from headrace.dataflow.record.trackers.feed import Feed
from headrace.dataflow.running.tracked import tracked
from tests.dataflow.running.test_launch import GRAPH

TRACKED = "trackers=[tensorboard]"


@pytest.mark.slow
def test_a_tracker_that_fails_is_said_once_with_the_way_out_and_what_it_missed(tmp_path: Path) -> None:
    spec, run = parse(GRAPH, overrides=[TRACKED]).spec, RunDir.create("copy", tmp_path / "run")
    (run.path / "tensorboard").write_text("in the way")
    with Telemetry(run, Speakers.of(spec)) as telemetry, tracked(spec, run, telemetry):
        for step in range(3):
            telemetry.take(Record(source="learn/0", kind=METRICS, at=1.0, step=step, body={"loss": 0.5}))
    failed, missed = read_jsonl(run.events).records
    assert (failed["event"], failed["tracker"]) == ("tracker_failed", "tensorboard")
    assert failed["way_out"] == "the run goes on without it; see logs/tracker-tensorboard.log"
    assert "FileExistsError" in failed["reason"] or "NotADirectoryError" in failed["reason"]
    assert (missed["event"], missed["points"]) == ("tracker_missed", 3)
    assert len(read_jsonl(run.metrics).records) == 3


def test_a_tracker_whose_process_cannot_be_started_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "no process can be started")

    monkeypatch.setattr("subprocess.Popen", none_left)
    spec, run = parse(GRAPH, overrides=[TRACKED]).spec, RunDir.create("copy", tmp_path / "run")
    with Telemetry(run) as telemetry, tracked(spec, run, telemetry):
        telemetry.take(Record(source="learn/0", kind=METRICS, at=1.0, step=0, body={"loss": 0.5}))
    (failed,) = read_jsonl(run.events).records
    assert (failed["event"], failed["reason"]) == ("tracker_failed", "[Errno 11] no process can be started")


def test_who_waits_for_a_tracker_that_takes_its_time_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = (sys.executable, "-c", "import time; time.sleep(600)")
    monkeypatch.setattr("headrace.dataflow.running.tracked.PATIENCE_S", 0.01)
    monkeypatch.setattr("headrace.dataflow.running.tracked.CLOSE_S", 0.1)
    monkeypatch.setattr("headrace.dataflow.running.tracked.Feed", partial(Feed, command=hangs))
    spec, run = parse(GRAPH, overrides=[TRACKED]).spec, RunDir.create("copy", tmp_path / "run")
    with Telemetry(run) as telemetry, tracked(spec, run, telemetry):
        telemetry.take(Record(source="learn/0", kind=METRICS, at=1.0, step=0, body={"loss": 0.5}))
    finishing, failed, missed = read_jsonl(run.events).records
    assert (finishing["event"], finishing["trackers"]) == ("trackers_finishing", ["tensorboard"])
    assert failed["reason"] == "it had not finished in its time after the run, and was ended"
    assert missed["points"] == 1


def test_a_graph_without_trackers_starts_none(tmp_path: Path) -> None:
    spec, run = parse(GRAPH).spec, RunDir.create("copy", tmp_path / "run")
    with Telemetry(run) as telemetry, tracked(spec, run, telemetry):
        telemetry.take(Record(source="learn/0", kind=METRICS, at=1.0, step=0, body={"loss": 0.5}))
    assert list(run.logs.iterdir()) == []
