from pathlib import Path

from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.record.telemetry import Record, Speakers, Telemetry, details


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
    with Telemetry(run, watch=[seen.append]) as telemetry:
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


def test_a_step_names_its_policy_and_scores_name_their_version(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "out")
    speakers = Speakers(trainers={"learn": "actor"}, evals={"held_out": "actor"})
    seen: list[Record] = []
    with Telemetry(run, speakers, watch=[seen.append]) as telemetry:
        telemetry.take(record("learn/0", "metrics", step=3, loss=0.5))
        telemetry.take(record("held_out/0", "metrics", step=4, **{"eval/held_out/reward": 0.25}))
        telemetry.take(record("held_out/0", "metrics", busy=0.5))
    assert read_jsonl(run.metrics).records == [
        {"step": 3, "policy": "actor", "time": 10.0, "loss": 0.5},
        {
            "eval": "held_out",
            "version": 4,
            "policy": "actor",
            "time": 10.0,
            "eval/held_out/reward": 0.25,
        },
        {"service": "held_out/0", "time": 10.0, "busy": 0.5},
    ]
    assert [(r.kind, r.policy) for r in seen] == [
        ("metrics", "actor"),
        ("scores", "actor"),
        ("metrics", ""),
    ]
