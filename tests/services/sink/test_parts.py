"""The files of a sink, and what is left of them when a process is cut off."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

from headrace.services.sink.formats import JSON
from headrace.services.sink.parts import Parts, SinkError


def parts(folder: Path, kind: str = "parquet", rows: int = 4, owner: str = "this run") -> Parts:
    return Parts(folder, kind=kind, rows_per_file=rows, owner=owner)


def table(*uids: int) -> pa.Table:
    return pa.table({"uid": pa.array(uids, pa.int64()), "text": [f"row {uid}" for uid in uids]})


def files(folder: Path) -> dict[str, list[int]]:
    return {
        path.name: pq.read_table(path)["uid"].to_pylist() for path in sorted(folder.glob("part-*.parquet"))
    }


def test_a_file_is_made_of_so_many_rows_and_the_rest_when_it_ends(tmp_path: Path) -> None:
    kept = parts(tmp_path)
    kept.append(table(1, 2, 3))
    assert (kept.room, kept.rows, files(tmp_path)) == (1, 3, {})
    kept.append(table(4))
    kept.append(table(5))
    assert files(tmp_path) == {"part-00000000.parquet": [1, 2, 3, 4]}
    kept.finish()
    assert files(tmp_path)["part-00000001.parquet"] == [5]
    kept.finish()
    assert len(files(tmp_path)) == 2 and not (tmp_path / ".rows").exists()


def test_a_row_that_comes_again_is_not_kept_again(tmp_path: Path) -> None:
    kept = parts(tmp_path)
    kept.append(table(1, 2))
    kept.append(table(2, 3, 4))
    kept.append(table(4, 1, 5))
    kept.finish()
    again = parts(tmp_path)
    again.append(table(5, 6))
    again.finish()
    assert list(files(tmp_path).values()) == [[1, 2, 3, 4], [5], [6]]


def test_what_waits_when_the_process_dies_becomes_a_file_at_the_next_start(tmp_path: Path) -> None:
    """Whatever byte the last batch is cut off at, the batches before it are whole."""
    kept = parts(tmp_path / "first")
    kept.append(table(1, 2))
    whole = (tmp_path / "first" / ".rows").stat().st_size
    kept.append(table(3))
    spool = (tmp_path / "first" / ".rows").read_bytes()
    for cut in range(whole, len(spool) + 1):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        (folder / ".rows").write_bytes(spool[:cut])
        assert parts(folder).rows == (3 if cut == len(spool) else 2)
        assert files(folder) == {"part-00000000.parquet": [1, 2, 3] if cut == len(spool) else [1, 2]}


class Cut(BaseException):
    """The process ends here."""


def test_cut_off_at_any_call_of_the_system_every_row_is_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the nth call that the disk sees, for every n that a run makes."""
    real = {"fsync": os.fsync, "rename": Path.rename, "unlink": Path.unlink}
    left = 0

    def counted(call: Any) -> Any:
        def cut(*arguments: Any, **keywords: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Cut
            return call(*arguments, **keywords)

        return cut

    monkeypatch.setattr(os, "fsync", counted(real["fsync"]))
    monkeypatch.setattr(Path, "rename", counted(real["rename"]))
    monkeypatch.setattr(Path, "unlink", counted(real["unlink"]))
    batches = [(1, 2), (3, 4), (5,), (6, 7, 8), (9,)]
    cuts = 0
    for number in range(1, 100):
        folder, left, acknowledged = tmp_path / str(number), number, set[int]()
        try:
            kept = parts(folder)
            for batch in batches:
                kept.append(table(*batch))
                acknowledged.update(batch)
            kept.finish()
        except Cut:
            cuts += 1
        left = 0
        after = parts(folder)
        found = [uid for uids in files(folder).values() for uid in uids]
        assert acknowledged <= set(found) and len(found) == len(set(found)) == after.rows
        for batch in batches:
            after.append(table(*batch))
        after.finish()
        assert sorted(uid for uids in files(folder).values() for uid in uids) == list(range(1, 10))
        if cuts < number:
            break
    assert cuts == 18


def test_a_file_that_was_renamed_and_whose_rows_still_wait_is_not_made_twice(tmp_path: Path) -> None:
    kept = parts(tmp_path)
    kept.append(table(1, 2))
    shutil.copy(tmp_path / ".rows", tmp_path / "waiting")
    kept.finish()
    (tmp_path / "waiting").rename(tmp_path / ".rows")
    assert parts(tmp_path).rows == 2
    assert files(tmp_path) == {"part-00000000.parquet": [1, 2]}


def test_a_file_that_was_torn_while_it_was_written_aside_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".part-00000000.parquet.aside").write_bytes(b"PAR1")
    kept = parts(tmp_path)
    kept.append(table(1))
    kept.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".headrace.json", "part-00000000.parquet"]


def test_rows_of_other_columns_that_waited_get_files_of_their_own(tmp_path: Path) -> None:
    kept = parts(tmp_path)
    kept.append(table(1))
    kept.append(table(2).append_column("reward", pa.array([0.5])))
    parts(tmp_path)
    assert list(files(tmp_path).values()) == [[1], [2]]


def test_files_of_both_formats_are_known(tmp_path: Path) -> None:
    kept = parts(tmp_path, "jsonl")
    kept.append(table(1, 2))
    kept.finish()
    kept = parts(tmp_path)
    kept.append(table(2, 3))
    kept.finish()
    assert files(tmp_path) == {"part-00000001.parquet": [3]}
    assert (tmp_path / "part-00000000.jsonl").read_text().splitlines() == [
        '{"uid":1,"text":"row 1"}',
        '{"uid":2,"text":"row 2"}',
    ]


def test_the_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    parts(tmp_path, owner="node kept of /runs/1")
    parts(tmp_path, owner="node kept of /runs/1")
    with pytest.raises(SinkError, match=r"holds rows of node kept of /runs/1, not of node kept of /runs/2"):
        parts(tmp_path, owner="node kept of /runs/2")


def test_jsonl_holds_objects_lists_and_null_where_json_has_no_number(tmp_path: Path) -> None:
    made = pa.table(
        {
            "uid": pa.array([1, 2], pa.int64()),
            "reward": pa.array([np.nan, 0.5]),
            "logprobs": pa.array([[-np.inf, -1.5], []], pa.list_(pa.float32())),
            "ok": pa.array([True, False]),
            "example": pa.ExtensionArray.from_storage(JSON, pa.array(['{"é":[1,null]}', "{}"])),
        }
    )
    kept = parts(tmp_path, "jsonl")
    kept.append(made)
    kept.finish()
    lines = (tmp_path / "part-00000000.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [
        '{"uid":1,"reward":null,"logprobs":[null,-1.5],"ok":true,"example":{"é":[1,null]}}',
        '{"uid":2,"reward":0.5,"logprobs":[],"ok":false,"example":{}}',
    ]
    assert json.loads(lines[0])["logprobs"][1] == -1.5
    assert pj.read_json(tmp_path / "part-00000000.jsonl").num_rows == 2
