"""Transforms on rows, without a queue."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.services.errors import TransformError, describe
from headrace.services.options import TransformOptions
from headrace.services.transforms import Transforms
from headrace.transferqueue import Column, Rows, TableSpec, Task

FUNCTIONS = """
def shaped(reward, ids, example):
    assert type(reward) is float and type(example) is dict
    return {"shaped": reward - 0.5 * len(ids) + example["bonus"]}

def doubled(shaped):
    return {"twice": 2 * shaped, "label": f"{shaped:g}"}

def in_place(ids):
    ids[0] = 7
    return {"first": 7}

def late(ids):
    return {"first": int(ids[0]) if ids[0] < 5 else "many"}

def bare(ids):
    return {"first": 1, "second": 2} if ids[0] == 5 else 3.0

def divided(reward):
    return {"inverse": 1.0 / reward}
"""
SPEC = TableSpec(
    name="rows",
    columns=(
        Column(name="reward", dtype="float64"),
        Column(name="ids", dtype="list<int32>"),
        Column(name="example", dtype="json"),
    ),
    tasks=(Task(name="learn", reads=("reward", "ids", "example")),),
)
ROWS = Rows(
    uids=np.array([65536, 65537], np.int64),
    groups=np.array([1, 1], np.int64),
    attempts=np.ones(2, np.int32),
    versions=np.zeros(2, np.int64),
    carries=(None, None),
    columns={
        "reward": pa.array([2.0, 0.0], pa.float64()),
        "ids": pa.array([[4, 1], [5]], pa.list_(pa.int32())),
        "example": pa.array(['{"bonus":1}', '{"bonus":0.25}'], pa.string()),
    },
    spec=SPEC,
)


def transform(folder: Path, name: str, reads: tuple[str, ...], **writes: str) -> TransformOptions:
    (folder / "mine.py").write_text(FUNCTIONS)
    return TransformOptions(function=f"{folder}/mine.py:{name}", columns=reads, writes=writes)  # pyright: ignore[reportArgumentType]


def test_one_transform_reads_what_another_gives(tmp_path: Path) -> None:
    rows = Transforms(
        (
            transform(tmp_path, "shaped", ("reward", "ids", "example"), shaped="float32"),
            transform(tmp_path, "doubled", ("shaped",), twice="float64", label="string"),
        )
    )(ROWS)
    assert rows["shaped"].tolist() == [2.0, -0.25] and rows["shaped"].dtype == np.float32
    assert rows["twice"].tolist() == [4.0, -0.5]
    assert rows["label"] == ["2", "-0.25"]
    assert rows["reward"].tolist() == [2.0, 0.0]
    assert rows.select(np.array([1]))["label"] == ["-0.25"]


def test_no_row_gives_no_cell(tmp_path: Path) -> None:
    transforms = Transforms((transform(tmp_path, "late", ("ids",), first="int64"),))
    assert transforms(ROWS.select(np.arange(0)))["first"].tolist() == []
    assert not Transforms(()) and Transforms(())(ROWS) is ROWS


@pytest.mark.parametrize(
    ("name", "reads", "writes", "message"),
    [
        (
            "in_place",
            ("ids",),
            {"first": "int64"},
            "{}:in_place raised on row 65536 <- ValueError: assignment destination is read-only",
        ),
        (
            "divided",
            ("reward",),
            {"inverse": "float64"},
            "{}:divided raised on row 65537 <- ZeroDivisionError: ",
        ),
        (
            "late",
            ("ids",),
            {"first": "int64"},
            "{}:late gave for row 65537 what first cannot hold; return a value of that type, or change "
            "`writes` <- SchemaError: column 'first' is int64 and got int and str",
        ),
        (
            "bare",
            ("ids",),
            {"first": "int64"},
            "{}:bare gave 3.0 for row 65536; `writes` declares first: return a mapping with exactly these "
            "keys, or change `writes`",
        ),
        (
            "late",
            ("ids",),
            {"first": "int64", "second": "int64"},
            "{}:late gave the keys ['first'] for row 65536; `writes` declares first, second: ",
        ),
    ],
)
def test_what_a_function_does_wrong_names_it_and_the_row(
    tmp_path: Path, name: str, reads: tuple[str, ...], writes: dict[str, str], message: str
) -> None:
    transforms = Transforms((transform(tmp_path, name, reads, **writes),))
    with pytest.raises(TransformError) as raised:
        transforms(ROWS)
    assert describe(raised.value).startswith(f"TransformError: {message.format(tmp_path / 'mine.py')}")


def test_a_function_that_does_not_take_its_columns_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(TransformError) as raised:
        Transforms((transform(tmp_path, "shaped", ("reward", "length"), shaped="float64"),))
    assert str(raised.value) == (
        f"{tmp_path}/mine.py:shaped cannot be called with reward, length: missing a required argument: 'ids'"
        "; give it these as keyword arguments, or change `columns`"
    )


def test_a_function_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(TransformError, match=r"mine\.py has no function 'shape'; it has bare, divided"):
        Transforms((transform(tmp_path, "shape", ("reward",), shaped="float64"),))
