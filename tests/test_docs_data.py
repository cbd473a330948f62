"""What docs/data.md shows is true of the code: each data set is opened, and the table has each verifier."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from headrace.dataflow.language.convert import convert
from headrace.services.options import Dataset, Verifier
from headrace.services.source.datasets import Example, open_dataset

TEXT = (Path(__file__).parent.parent / "docs" / "data.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def shown(kind: str) -> list[Example]:
    """All entries of the document's data set of a kind, or its first three."""
    (tree,) = [
        tree["dataset"] for tree in map(yaml.safe_load, blocks("yaml")) if tree["dataset"]["kind"] == kind
    ]
    problems: list[Any] = []
    made = convert(tree, Dataset, (), problems)
    assert problems == []
    data = open_dataset(made, seed=0)
    return [data[index] for index in range(min(len(data), 3))]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_jsonl() -> None:
    (lines,) = blocks("json")
    Path("sums.jsonl").write_text(lines)
    text, chat, ids = shown("jsonl")
    assert (text.prompt, text.example) == ("6*7=", {"answer": "42", "domain": "products"})
    assert chat.prompt == [{"role": "user", "content": "What is 6+7?"}]
    assert (ids.prompt, ids.example["answer"]) == ([5, 3, 2], "1/2")


def test_parquet() -> None:
    exec(blocks("python")[0], {})
    (only,) = shown("parquet")
    assert only.prompt == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "What is 6*7?"},
    ]
    assert only.example == {"answer": "#### 42"}


def test_datasets() -> None:
    pytest.importorskip("datasets")
    exec(blocks("python")[1], {})
    (only,) = shown("datasets")
    assert (only.prompt, only.example) == ("6+7=", {"answer": "13"})


def test_reasoning_gym() -> None:
    pytest.importorskip("reasoning_gym")
    assert [entry.example["task"] for entry in shown("reasoning_gym")] == ["chain_sum"] * 3


def test_copy() -> None:
    assert [len(entry.example["answer"]) for entry in shown("copy")] == [2, 4, 2]


def test_each_kind_of_data_set_is_shown_and_each_verifier_is_in_the_table() -> None:
    trees = [yaml.safe_load(block)["dataset"] for block in blocks("yaml")]
    assert sorted(tree["kind"] for tree in trees) == ["copy", "datasets", "jsonl", "parquet", "reasoning_gym"]
    table = TEXT.partition("| `verifier` |")[2]
    for cls in get_args(Verifier):
        kind = cls.__dataclass_fields__["kind"].default
        assert f"| `{kind}` |" in table or f"| `{{kind: {kind}," in table
