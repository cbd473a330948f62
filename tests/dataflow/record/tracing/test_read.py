"""Traces of one row, from the ends of the files."""

import json
from pathlib import Path

from headrace.dataflow.record.tracing.read import Traces, Visit


def line(uid: int, at: float) -> str:
    times = {"leased": at, "made": at + 1, "written": at + 2}
    return json.dumps({"rows": [uid], "table": "prompts", **times}) + "\n"


def test_a_row_is_found_in_the_last_whole_lines_of_each_file(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").touch()
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "answers-0.older.jsonl").write_text(line(4242, 1.0) + line(4242, 2.0))
    (tmp_path / "trace" / "scores-1.jsonl").write_text(line(4242, 3.0) + line(14242, 4.0) + line(8, 5.0))
    found = Traces.near_end(tmp_path, 4242)
    assert found.visits[("prompts", 4242)] == {
        "answers": Visit("answers/0", 2.0, 3.0, 4.0),
        "scores": Visit("scores/1", 3.0, 4.0, 5.0),
    }
    assert found.torn == 0
    short = Traces.near_end(tmp_path, 4242, tail_bytes=len(line(4242, 2.0)) + 5)
    assert short.visits == {("prompts", 4242): {"answers": Visit("answers/0", 2.0, 3.0, 4.0)}}
    assert short.torn == 0


def test_a_short_uid_is_not_taken_for_a_part_of_times_and_of_other_uids(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").touch()
    (tmp_path / "trace").mkdir()
    beside = json.dumps({"put": [6, 7, 8], "table": "prompts", "at": 0.5}, separators=(",", ":"))
    lines = f"{beside}\n{line(7, 1.0)}{line(17, 7.0)}{line(71, 8.7)}"
    (tmp_path / "trace" / "answers-0.jsonl").write_text(lines)
    found = Traces.near_end(tmp_path, 7)
    assert list(found.visits) == [("prompts", 7)]
    assert sorted(found.puts) == [("prompts", 6), ("prompts", 7), ("prompts", 8)]
    assert list(Traces.near_end(tmp_path, 8).visits) == []


def test_a_run_without_traces_has_nothing_to_say_of_a_row(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").touch()
    assert Traces.near_end(tmp_path, 4242) == Traces()
