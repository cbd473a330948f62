"""Prompts that somebody wrote down, in JSONL, Parquet or the `datasets` package: one contract."""

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.services.options import FileData, HuggingFaceData, JsonlData, ParquetData
from headrace.services.source.datasets import Dataset, open_dataset, parquet
from headrace.services.source.datasets.base import DatasetError
from headrace.services.source.datasets.glance import Glance, glance

Entries = list[dict[str, Any]]
Write = Callable[[Path, Entries], FileData]


def to_jsonl(folder: Path, entries: Entries) -> JsonlData:
    path = folder / "data.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return JsonlData(path=str(path))


def to_parquet(folder: Path, entries: Entries, *, row_group_size: int = 2) -> ParquetData:
    path = folder / "data.parquet"
    pq.write_table(pa.Table.from_pylist(entries), path, row_group_size=row_group_size)
    return ParquetData(path=str(path))


def to_datasets(folder: Path, entries: Entries) -> HuggingFaceData:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(entries).save_to_disk(folder / "saved")
    return HuggingFaceData(path=str(folder / "saved"))


each_format = pytest.mark.parametrize("write", [to_jsonl, to_parquet, to_datasets])
each_columnar = pytest.mark.parametrize("write", [to_parquet, to_datasets])


def opened(options: FileData) -> Dataset:
    return open_dataset(options, seed=0)


@each_format
def test_a_prompt_goes_to_the_model_and_the_rest_to_the_verifier(tmp_path: Path, write: Write) -> None:
    entries = [{"prompt": f"{n}+1=", "answer": str(n + 1), "told": {"steps": [n, 1]}} for n in range(5)]
    data = opened(write(tmp_path, entries))
    assert len(data) == 5
    assert [data[i].prompt for i in (4, 0, 3)] == ["4+1=", "0+1=", "3+1="]
    assert data[3].example == {"answer": "4", "told": {"steps": [3, 1]}}
    assert data.labels().domains is None


@each_format
def test_messages_and_token_ids_are_taken_as_they_are(tmp_path: Path, write: Write) -> None:
    chat = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "ü?"}]
    assert opened(write(tmp_path, [{"prompt": chat}]))[0].prompt == chat
    (tmp_path / "ids").mkdir()
    assert opened(write(tmp_path / "ids", [{"prompt": [5, 0, 7]}]))[0].prompt == [5, 0, 7]


@each_format
def test_text_is_asked_as_a_chat_where_that_is_said(tmp_path: Path, write: Write) -> None:
    options = replace(write(tmp_path, [{"question": "2+2?", "answer": "4"}]), prompt_key="question")
    user = {"role": "user", "content": "2+2?"}
    assert opened(options)[0].prompt == "2+2?"
    assert opened(replace(options, chat=True))[0].prompt == [user]
    told = opened(replace(options, system_prompt="Be short."))[0]
    assert told.prompt == [{"role": "system", "content": "Be short."}, user]
    assert told.example == {"answer": "4"}


@each_format
def test_domains_and_pass_rates_are_told(tmp_path: Path, write: Write) -> None:
    entries = [{"prompt": "p", "level": d, "pass_rate": r} for d, r in ((10, 0.5), (2, 0.0), (10, 1.0))]
    labels = opened(replace(write(tmp_path, entries), domain_key="level")).labels()
    assert labels.names == ("2", "10")
    assert labels.domains is not None and labels.domains.tolist() == [1, 0, 1]
    assert labels.pass_rates is not None and labels.pass_rates.tolist() == [0.5, 0.0, 1.0]


@each_format
def test_a_domain_that_only_some_have_is_refused(tmp_path: Path, write: Write) -> None:
    entries = [{"prompt": "p", "domain": "a"}, {"prompt": "p", "domain": None}]
    with pytest.raises(DatasetError, match=r"1: `domain` is None, other entries have a number or a text"):
        opened(write(tmp_path, entries)).labels()


@each_format
@pytest.mark.parametrize(
    ("prompts", "change", "named"),
    [
        (["a", ""], {}, "`prompt` must be text, a list of messages"),
        (["a", None], {}, "`prompt` must be text, .* got null"),
        ([1.5, 2.5], {}, "`prompt` must be text, .* got 1.5"),
        ([[1, 2], [3, -4]], {}, r"`prompt` must be text, .* got \[3, -4\]"),
        ([[{"role": "user"}]], {}, "`prompt` must be text, "),
        (
            [[1], [2]],
            {"chat": True},
            "`prompt` is token ids, which no chat template takes; remove dataset.chat",
        ),
        (
            [[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]],
            {"system_prompt": "t"},
            "has a system message of its own; remove dataset.system_prompt",
        ),
        (["a"], {"prompt_key": "question"}, "`question`"),
    ],
)
def test_what_cannot_be_asked_is_refused_when_the_data_is_opened(
    tmp_path: Path, write: Write, prompts: list[Any], change: dict[str, Any], named: str
) -> None:
    options = replace(write(tmp_path, [{"prompt": prompt} for prompt in prompts]), **change)
    with pytest.raises(DatasetError, match=named):
        opened(options)


@each_columnar
def test_columns_may_be_left_out_and_one_that_is_no_json_has_to_be(tmp_path: Path, write: Write) -> None:
    day = datetime.date(2026, 1, 2)
    options = write(tmp_path, [{"prompt": "p", "answer": "a", "day": day, "level": 3}])
    with pytest.raises(DatasetError, match=r"row 0: `day` is no plain JSON .* name the columns that the ver"):
        opened(options)
    some = opened(replace(options, columns=("answer",), domain_key="level"))  # type: ignore[call-arg]
    assert some[0].example == {"answer": "a"} and some.labels().names == ("3",)
    with pytest.raises(
        DatasetError, match=r"no column `gold`; set dataset.columns to one of prompt, answer,"
    ):
        opened(replace(options, columns=("gold",)))  # type: ignore[call-arg]


@each_columnar
def test_fields_that_a_message_lacks_are_left_out(tmp_path: Path, write: Write) -> None:
    named = {"role": "tool", "content": "4", "name": "sum"}
    chat = [{"role": "user", "content": "2+2?"}, named]
    assert opened(write(tmp_path, [{"prompt": chat}]))[0].prompt == chat


@each_format
def test_a_glance_tells_size_and_keys_without_reading_entries(tmp_path: Path, write: Write) -> None:
    options = write(tmp_path, [{"prompt": "p", "answer": 1}, {"prompt": "", "answer": 2}])
    assert glance(options) == Glance(size=2, keys=("prompt", "answer"))


def test_a_parquet_file_is_read_by_row_groups_of_which_the_last_few_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [{"prompt": f"{n}" * 100} for n in range(10)]
    data = opened(to_parquet(tmp_path, entries, row_group_size=3))
    assert isinstance(data, parquet.ParquetRows)
    assert [data[i].prompt for i in (9, 0, 5)] == [f"{n}" * 100 for n in (9, 0, 5)]
    assert list(data._kept) == [3, 0, 1]
    monkeypatch.setattr(parquet, "MAX_KEPT_BYTES", 700)
    assert data[6].prompt == "6" * 100
    assert list(data._kept) == [1, 2]


def test_files_that_are_not_there_or_no_parquet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"there is no file .*none.parquet; set dataset.path to one"):
        opened(ParquetData(path=str(tmp_path / "none.parquet")))
    (tmp_path / "odd.parquet").write_text("hello")
    with pytest.raises(DatasetError, match=r"odd\.parquet is no Parquet file"):
        opened(ParquetData(path=str(tmp_path / "odd.parquet")))
    with pytest.raises(DatasetError, match="has no rows; each row is a prompt"):
        pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), tmp_path / "empty.parquet")
        opened(ParquetData(path=str(tmp_path / "empty.parquet")))
