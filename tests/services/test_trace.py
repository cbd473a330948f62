import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from headrace.services.pulse import Pulse
from headrace.services.trace import OLDER, Trace, trace_file


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def ticking(file: Path | None, **options: Any) -> Trace:
    """Whose clock says 0, 1, 2, ..."""
    moments = count()
    return Trace(file, now=lambda: float(next(moments)), **options)


def test_a_trace_says_when_rows_were_put_and_worked_on_and_what_the_replica_did(tmp_path: Path) -> None:
    file = trace_file(tmp_path, "answers/0")
    trace = ticking(file)
    trace.put("prompts", np.array([7, 8]))
    trace.rows("prompts", np.array([7]), leased=0.25, made=0.5)
    with trace.during("load version 3 of actor"):
        pass
    trace.close()
    assert file == tmp_path / "trace" / "answers-0.jsonl"
    assert lines(file) == [
        {"put": [7, 8], "table": "prompts", "at": 0.0},
        {"rows": [7], "table": "prompts", "leased": 0.25, "made": 0.5, "written": 1.0},
        {"span": "load version 3 of actor", "began": 2.0, "ended": 3.0},
    ]


def test_work_that_raises_is_traced_too(tmp_path: Path) -> None:
    trace = ticking(tmp_path / "t.jsonl")
    try:
        with Pulse(trace=trace).working("process 8 rows"):
            raise RuntimeError
    except RuntimeError:
        trace.close()
    assert lines(tmp_path / "t.jsonl") == [{"span": "process 8 rows", "began": 0.0, "ended": 1.0}]


def test_a_replica_keeps_two_files_and_the_newest_lines(tmp_path: Path) -> None:
    file = tmp_path / "answers-0.jsonl"
    trace = ticking(file, most_bytes=100)
    for uid in range(7):
        trace.put("t", np.array([uid]))
    trace.close()
    line = len('{"put":[0],"table":"t","at":0.0}\n')
    assert line == 33
    assert [each["put"] for each in lines(file)] == [[6]]
    assert [each["put"] for each in lines(file.with_suffix(OLDER))] == [[3], [4], [5]]


def test_a_replica_that_is_back_goes_on_in_its_file(tmp_path: Path) -> None:
    for uid in (1, 2):
        trace = ticking(tmp_path / "t.jsonl")
        trace.put("t", np.array([uid]))
        trace.close()
    assert [each["put"] for each in lines(tmp_path / "t.jsonl")] == [[1], [2]]


def test_what_finds_no_room_is_counted_and_disturbs_nobody(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("a file in the folder's place")
    trace = ticking(trace_file(tmp_path, "answers/0"))
    trace.put("t", np.array([1]))
    trace.rows("t", np.array([1]), leased=0.0, made=0.0)
    trace.close()
    assert trace.lost == 2


def test_without_a_file_a_trace_forgets(tmp_path: Path) -> None:
    trace = ticking(None)
    trace.put("t", np.array([1]))
    with trace.during("load"):
        trace.close()
    assert trace.lost == 0
    assert list(tmp_path.iterdir()) == []
