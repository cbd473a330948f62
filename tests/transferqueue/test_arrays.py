from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.transferqueue import Column, SchemaError, TableSpec, Task
from headrace.transferqueue.arrays import aligned_lengths, same_bytes, smallest, to_arrays


def column(dtype: Any, aligned: str | None = None) -> Column:
    return Column(name="x", dtype=dtype, aligned=aligned)


def test_an_int64_array_is_refused_by_a_float32_column_naming_both_types() -> None:
    """B07."""
    with pytest.raises(SchemaError, match=r"column 'x' is float32 and got an array of int64"):
        column("float32").to_arrow(np.array([1, 2]))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int32", [1.0]),
        ("int32", [True]),
        ("int32", [2**31]),
        ("int64", ["1"]),
        ("float32", [2**24 + 1]),
        ("float32", [1e300]),
        ("float64", [None]),
        ("float64", [np.float32(1)]),
        ("bool", [1]),
        ("string", [b"a"]),
        ("string", [None]),
        ("json", [{1, 2}]),
        ("list<int32>", [np.array([1])]),
        ("list<int32>", [[1, None]]),
        ("list<int32>", [3]),
        ("list<float32>", [np.zeros((2, 2), np.float32)]),
        ("list<float32>", np.zeros((2, 2))),
        ("int32", "12"),
        ("int32", pa.array([1, 2])),
        ("int32", pa.array([1, None], pa.int32())),
    ],
)
def test_a_value_that_does_not_fit_is_refused(dtype: str, values: Any) -> None:
    with pytest.raises(SchemaError, match="column 'x'"):
        column(dtype).to_arrow(values)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("int32", [1, 2], pa.array([1, 2], pa.int32())),
        ("float32", [1, 0.5], pa.array([1, 0.5], pa.float32())),
        ("bool", np.array([True, False]), pa.array([True, False])),
        ("string", ("a", "é"), pa.array(["a", "é"])),
        ("json", [{"a": [1]}, None], pa.array(['{"a":[1]}', "null"])),
        ("list<int8>", [[1], []], pa.array([[1], []], pa.list_(pa.int8()))),
        ("list<int32>", np.ones((2, 2), np.int32), pa.array([[1, 1], [1, 1]], pa.list_(pa.int32()))),
        ("list<int64>", [], pa.array([], pa.list_(pa.int64()))),
    ],
)
def test_values_that_fit_become_the_declared_type(dtype: str, values: Any, expected: pa.Array) -> None:
    array = column(dtype).to_arrow(values)
    assert array.type == expected.type
    assert array.equals(expected)


def test_an_array_of_the_exact_type_passes_without_a_copy() -> None:
    values = np.arange(8, dtype=np.float32)
    array = column("float32").to_arrow(values)
    assert array.buffers()[1].address == values.ctypes.data
    rows = column("list<float32>").to_arrow(values.reshape(2, 4))
    assert rows.values.buffers()[1].address == values.ctypes.data


def test_rows_of_equal_length_have_the_type_of_ragged_ones() -> None:
    """B11."""
    uniform = column("list<int32>").to_arrow([[1, 2], [3, 4]])
    ragged = column("list<int32>").to_arrow([[1, 2], [3]])
    assert uniform.type == ragged.type == pa.list_(pa.int32())


def test_aligned_columns_of_different_length_are_refused_naming_the_row_and_both() -> None:
    columns = tuple(Column(name=n, dtype="list<int32>", aligned="response") for n in ("tokens", "mask"))
    spec = TableSpec(name="t", columns=columns, tasks=(Task(name="k", reads=("tokens",)),))
    arrays = to_arrays(spec, {"tokens": [[1], [1, 2]], "mask": [[1], [1]]}, 2)
    with pytest.raises(SchemaError, match="row 8: 'tokens' has 2 entries and 'mask' has 1"):
        aligned_lengths(spec, arrays, np.array([7, 8]))


def test_a_column_has_one_cell_for_each_uid() -> None:
    spec = TableSpec(name="t", columns=(column("int32"),), tasks=(Task(name="k", reads=("x",)),))
    with pytest.raises(SchemaError, match="column 'x' has 1 cells for 2 uids"):
        to_arrays(spec, {"x": [1]}, 2)
    with pytest.raises(SchemaError, match="has no column 'y'; its columns are x"):
        to_arrays(spec, {"y": [1]}, 1)


def test_the_smallest_entry_of_each_cell_is_minus_one_where_there_is_none() -> None:
    array = column("list<int32>").to_arrow([[3, 2], [], [5], []])
    assert smallest(array).tolist() == [2, -1, 5, -1]
    assert smallest(array.slice(1, 2)).tolist() == [-1, 5]


def test_cells_are_compared_bit_by_bit_so_that_nan_equals_itself() -> None:
    nan = column("float64").to_arrow([float("nan")])
    assert same_bytes(nan, column("float64").to_arrow([float("nan")]))
    assert not same_bytes(nan, column("float64").to_arrow([0.0]))
    left, right = column("list<int32>").to_arrow([[1], [2, 3]]), column("list<int32>").to_arrow([[1, 2], [3]])
    assert not same_bytes(left, right)
    assert same_bytes(left.slice(1), column("list<int32>").to_arrow([[2, 3]]))
