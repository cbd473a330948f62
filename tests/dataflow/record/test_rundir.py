import json
import logging
from pathlib import Path

import pytest

from headrace.dataflow.record import rundir
from headrace.dataflow.record.rundir import JsonlWriter, RunDir, RunDirError, each_of_jsonl, read_jsonl


def test_runs_stand_under_their_name_and_latest_points_at_the_newest(tmp_path: Path) -> None:
    first = RunDir.create("sort", root=tmp_path)
    second = RunDir.create("sort", root=tmp_path)
    assert first.path != second.path
    assert first.path.parent == second.path.parent == tmp_path / "sort"
    assert (tmp_path / "latest").resolve() == second.path
    assert not (tmp_path / "latest").readlink().is_absolute()


def test_an_output_directory_is_used_as_it_is_and_leaves_latest_alone(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "deep" / "out", root=tmp_path / "runs")
    assert run.path == tmp_path / "deep" / "out"
    assert (run.logs.is_dir(), run.checkpoints.is_dir()) == (True, True)
    assert not (tmp_path / "runs").exists()


def test_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunDirError, match=r"holds files that are not a run's \(thesis\.tex\)"):
        RunDir.create("sort", tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(RunDirError, match="is a file"):
        RunDir.create("sort", tmp_path / "out")


def test_a_run_is_not_overwritten_but_opened(tmp_path: Path) -> None:
    run = RunDir.create("sort", tmp_path / "out")
    run.graph.write_text("name: sort\n")
    with pytest.raises(RunDirError, match="already holds a run; go on with it by `headrace run"):
        RunDir.create("sort", tmp_path / "out")
    assert RunDir.open(tmp_path / "out") == run


def test_what_is_no_run_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match=r"has no graph\.yaml"):
        RunDir.open(tmp_path)


def test_a_record_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "m.jsonl") as writer:
        writer.write({"step": 0})
        assert (tmp_path / "m.jsonl").read_text() == '{"step": 0}\n'


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "m.jsonl") as writer:
        writer.write({"a": float("nan"), "b": [1.5, float("inf")], "c": {"d": float("-inf")}})
    assert read_jsonl(tmp_path / "m.jsonl").records == [{"a": None, "b": [1.5, None], "c": {"d": None}}]


def test_a_torn_last_line_is_skipped_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A31."""
    (tmp_path / "m.jsonl").write_text('{"step": 0}\n{"step": 1}\n{"ste')
    with caplog.at_level(logging.WARNING):
        lines = read_jsonl(tmp_path / "m.jsonl")
    assert (lines.records, lines.torn_bytes) == ([{"step": 0}, {"step": 1}], 5)
    assert "skipped a torn last line of 5 bytes" in caplog.text


def test_records_one_at_a_time_are_those_of_the_whole_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "m.jsonl"
    assert list(each_of_jsonl(file)) == []
    file.write_text('{"step": 0}\n{"step": 1}\n{"ste')
    found = each_of_jsonl(file)
    assert next(found) == {"step": 0}
    with caplog.at_level(logging.WARNING):
        assert list(found) == [{"step": 1}]
    assert "skipped a torn last line of 5 bytes" in caplog.text
    file.write_text('{"step": 0}\n{"ste\n{"step": 2}\n')
    with pytest.raises(RunDirError, match=r"m\.jsonl:2: not a line of JSON"):
        list(each_of_jsonl(file))


def test_a_torn_last_line_is_cut_off_before_writing_goes_on(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step": 0}\n{"ste')
    with JsonlWriter(tmp_path / "m.jsonl") as writer:
        writer.write({"step": 1})
    assert [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()] == [
        {"step": 0},
        {"step": 1},
    ]


def test_a_broken_line_in_the_middle_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step": 0}\nnonsense\n{"step": 1}\n')
    with pytest.raises(RunDirError, match=r"m\.jsonl:2: not a line of JSON"):
        read_jsonl(tmp_path / "m.jsonl")


def test_a_file_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert read_jsonl(tmp_path / "none.jsonl").records == []


def test_what_a_full_disk_does_not_take_disturbs_nobody_and_is_said_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rundir, "_cut_torn_end", lambda path: None)
    with caplog.at_level(logging.WARNING), JsonlWriter(Path("/dev/full")) as writer:
        writer.write({"a": 1})
        writer.write({"b": 2})
    assert "/dev/full: 18 bytes are lost, the disk is full" in caplog.text
