from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from headrace.transferqueue import Column, Rows, SchemaError, TableSpec, Task
from headrace.transferqueue.arrays import arrow_type, same_bytes

Make = Callable[..., Any]
IMAGE = Column(name="image", dtype="float32", shape=(2, 3))


def spec(*columns: Column) -> TableSpec:
    task = Task(name="look", reads=tuple(column.name for column in columns))
    return TableSpec(name="t", columns=columns, tasks=(task,))


def rows(column: Column, values: Any) -> Rows:
    array = column.to_arrow(values)
    n = np.zeros(len(array), np.int64)
    return Rows(
        uids=n,
        groups=n,
        attempts=n,
        versions=n,
        carries=(None,) * len(n),
        columns={column.name: array},
        spec=spec(column),
    )


def test_tensors_pass_and_come_back_as_views_of_one_array() -> None:
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    array = IMAGE.to_arrow(values)
    assert array.type == arrow_type(IMAGE) == pa.list_(pa.float32(), 6)
    back = rows(IMAGE, array)
    assert back["image"].ctypes.data == values.ctypes.data
    assert back.torch("image").data_ptr() == values.ctypes.data
    assert back.torch("image").tolist() == values.tolist()
    assert back.select(np.array([1]))["image"].tolist() == values[1:].tolist()


def test_a_tensor_may_come_from_torch_row_by_row() -> None:
    cells = [torch.zeros(2, 3), torch.ones(2, 3)]
    assert rows(IMAGE, cells)["image"].sum(axis=(1, 2)).tolist() == [0.0, 6.0]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.zeros((1, 2, 3)), r"is float32 of shape \[2, 3\] and got float64"),
        (np.zeros((1, 3, 2), np.float32), r"got float32 of shape \[1, 3, 2\]"),
        ([np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)], r"row 1 has shape \[3, 2\]"),
    ],
)
def test_a_tensor_of_another_shape_or_dtype_is_refused(values: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        IMAGE.to_arrow(values)


@pytest.mark.parametrize(
    ("dtype", "shape"), [("list<int32>", (2,)), ("string", (2,)), ("int32", ()), ("int32", (2, 0))]
)
def test_a_shape_that_is_none_is_refused(dtype: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="scalar dtype of numbers"):
        Column(name="x", dtype=dtype, shape=shape)


def test_a_spec_with_tensors_and_lists_of_every_type_travels() -> None:
    names = ("list<bool>", "list<int8>", "list<uint8>", "int8", "uint8")
    columns = [Column(name=name, dtype=name) for name in names]
    whole = spec(IMAGE, *columns)
    data = whole.to_wire()
    assert TableSpec.from_wire({**data, "columns": [{**c, "shape": c["shape"] and list(c["shape"])} for c in
                                                    data["columns"]]}) == whole  # fmt: skip


def test_lists_of_bool_and_bytes_keep_their_type() -> None:
    mask = Column(name="mask", dtype="list<bool>")
    got = rows(mask, [[True, False], []])
    assert [cell.tolist() for cell in got["mask"]] == [[True, False], []]
    assert got.torch("mask")[0].tolist() == [True, False]
    raw = Column(name="raw", dtype="list<uint8>")
    assert rows(raw, [np.array([255], np.uint8)])["raw"][0].tolist() == [255]
    with pytest.raises(SchemaError):
        raw.to_arrow([[256]])


def test_a_column_has_one_type_whatever_its_rows() -> None:
    """B11: rows of equal length come back as ragged ones do."""
    ids = Column(name="ids", dtype="list<int32>")
    even, ragged = rows(ids, np.ones((2, 3), np.int32)), rows(ids, [[1], [1, 2]])
    assert even.arrow("ids").type == ragged.arrow("ids").type
    assert type(even["ids"]) is type(ragged["ids"]) is list
    assert [t.tolist() for t in ragged.torch("ids")] == [[1], [1, 2]]


def test_equal_tensors_are_found_equal_to_the_bit() -> None:
    values = np.array([[[np.nan, 1, 2], [3, 4, 5]]], np.float32)
    assert same_bytes(IMAGE.to_arrow(values), IMAGE.to_arrow(values.copy()))
    assert not same_bytes(IMAGE.to_arrow(values), IMAGE.to_arrow(-values))


async def test_tensors_go_through_the_queue_and_a_reader_may_scribble(connect: Make) -> None:
    producer, consumer, other = await connect("p"), await connect("c"), await connect("o")
    looks = (Task(name="look", reads=("image",)), Task(name="also", reads=("image",)))
    await producer.create(TableSpec(name="t", columns=(IMAGE,), tasks=looks))
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    await producer.put("t", [1, 2], {"image": values}, groups=[1, 2])
    lease = await consumer.lease("look", 2, timeout_s=60)
    lease.rows.torch("image").zero_()
    assert (await other.lease("also", 2, timeout_s=60)).rows["image"].tolist() == values.tolist()


def test_strings_have_no_tensor() -> None:
    with pytest.raises(SchemaError, match="read it as rows"):
        rows(Column(name="s", dtype="string"), ["a"]).torch("s")
