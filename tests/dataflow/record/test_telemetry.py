from pathlib import Path

from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.record.telemetry import Record, Telemetry, details


def record(source: str, kind: str, step: int | None = None, **body: object) -> Record:
    return Record(source=source, kind=kind, at=10.0, step=step, body=body)


def test_records_go_to_the_file_of_their_kind_and_to_the_watcher(tmp_path: Path) -> None:
    seen: list[Record] = []
    run = RunDir.create("sort", tmp_path / "out")
    records = [
        record("learn/0", "metrics", step=3, **{"reward/mean": 0.5}),
        record("answers/1", "metrics", busy=0.25),
        record("answers/1", "state", old="loading", new="ready"),
    ]
    with Telemetry(run, watch=seen.append) as telemetry:
        for one in records:
            telemetry.take(one)
    assert read_jsonl(run.metrics).records == [
        {"step": 3, "time": 10.0, "reward/mean": 0.5},
        {"service": "answers/1", "time": 10.0, "busy": 0.25},
    ]
    assert read_jsonl(run.events).records == [
        {"time": 10.0, "event": "state", "source": "answers/1", "old": "loading", "new": "ready"}
    ]
    assert seen == records


def test_a_resumed_run_appends_to_its_files(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "out")
    for step in (0, 1):
        with Telemetry(run) as telemetry:
            telemetry.take(record("learn/0", "metrics", step=step))
    assert [line["step"] for line in read_jsonl(run.metrics).records] == [0, 1]


def test_empty_details_are_left_out_and_zero_is_not() -> None:
    assert (
        details({"status": "completed", "cause": "", "dropped": {}, "lost": 0}) == "status completed, lost 0"
    )
