import logging
from pathlib import Path

import pytest

from headrace.services.source.journal import Journal, JournalError, Past, Snapshot


def test_what_was_written_is_there_in_the_next_life(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "prompts")
    assert journal.recall() == Past(records=[], snapshot=None)
    journal.append({"a": 0.1}, safe=True)
    journal.save({"x": [1, None]})
    journal.append({"b": 2}, safe=False)
    again = Journal(tmp_path / "prompts")
    snapshot = Snapshot(lines=1, state={"x": [1, None]})
    assert again.recall() == Past(records=[{"a": 0.1}, {"b": 2}], snapshot=snapshot)
    assert again.lines == 2


def test_a_torn_last_line_is_cut_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "draws.jsonl").write_text('{"a": 1}\n{"b"')
    with caplog.at_level(logging.WARNING):
        journal = Journal(tmp_path)
        assert journal.recall().records == [{"a": 1}]
    journal.append({"c": 3}, safe=False)
    assert (tmp_path / "draws.jsonl").read_text() == '{"a": 1}\n{"c": 3}\n'
    assert "cut off a torn last line of 4 bytes" in caplog.text


def test_a_line_before_the_last_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "draws.jsonl").write_text('{"a": 1}\n{"b"\n{"c": 3}\n')
    with pytest.raises(JournalError, match=r"draws\.jsonl:2: not JSON"):
        Journal(tmp_path).recall()


def test_a_snapshot_of_more_lines_than_there_are_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"lines": 3, "state": {}}')
    with pytest.raises(JournalError, match="covers 3 lines, the log beside it has 0"):
        Journal(tmp_path).recall()
