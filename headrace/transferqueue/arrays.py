"""Values to Arrow columns, checked at the door, and the few questions asked about them.

Invariant: what comes back has exactly the declared type and no null. Nothing is cast in silence: an array
of another type is refused, and a Python number is taken only where its column can hold it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.transferqueue.errors import SchemaError
from headrace.transferqueue.schema import Column, TableSpec
from headrace.transferqueue.tensors import tensor_type, tensors_to_arrow

_ITEMS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "json": pa.string(),
}


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a column's cells."""
    if column.shape is not None:
        return tensor_type(column, _item_type(column))
    return pa.list_(_item_type(column)) if column.is_list() else _item_type(column)


def arrow_schema(spec: TableSpec, names: Sequence[str]) -> pa.Schema:
    """Schema of a block that holds the columns `names`, in that order."""
    return pa.schema([pa.field(name, arrow_type(spec.column(name))) for name in names])


def to_arrow(column: Column, values: Any) -> pa.Array:
    """See `Column.to_arrow`."""
    values = _as_array_or_sequence(column, values)
    if isinstance(values, pa.Array):
        return _exact(column, values)
    if column.shape is not None:
        return tensors_to_arrow(column, _item_type(column), values)
    if column.is_list():
        return _lists(column, values)
    if column.dtype == "json":
        return pa.array([_json(column, index, value) for index, value in enumerate(values)], pa.string())
    return _scalars(column, values, where="")


def to_arrays(spec: TableSpec, columns: Mapping[str, Any], rows: int) -> dict[str, pa.Array]:
    """Every column of one put, each with `rows` cells, in the table's order of columns."""
    unknown = [name for name in columns if name not in {c.name for c in spec.columns}]
    if unknown:
        spec.column(unknown[0])
    arrays = {c.name: c.to_arrow(columns[c.name]) for c in spec.columns if c.name in columns}
    for name, array in arrays.items():
        if len(array) != rows:
            raise SchemaError(f"column {name!r} has {len(array)} cells for {rows} uids; one per uid is due")
    return arrays


def aligned_lengths(
    spec: TableSpec, arrays: Mapping[str, pa.Array], uids: np.ndarray
) -> dict[str, np.ndarray]:
    """Cell lengths [n] by `aligned` label; SchemaError naming the first row where two columns disagree."""
    found: dict[str, tuple[str, np.ndarray]] = {}
    for name, array in arrays.items():
        label = spec.column(name).aligned
        if label is None:
            continue
        lengths = list_lengths(array)
        first, known = found.setdefault(label, (name, lengths))
        if not np.array_equal(known, lengths):
            row = int(np.flatnonzero(known != lengths)[0])
            raise SchemaError(
                f"row {int(uids[row])}: {first!r} has {known[row]} entries and {name!r} has {lengths[row]}; "
                f"columns aligned on {label!r} must agree in length"
            )
    return {label: lengths for label, (_, lengths) in found.items()}


def list_lengths(array: pa.Array) -> np.ndarray:
    """int64 [n]: entries in each cell of a list column."""
    return np.diff(array.offsets.to_numpy(zero_copy_only=False)).astype(np.int64)


def smallest(array: pa.Array) -> np.ndarray:
    """int64 [n]: the least entry of each cell of an integer list column, -1 for an empty cell."""
    return _reduced(array, np.minimum)


def greatest(array: pa.Array) -> np.ndarray:
    """int64 [n]: the greatest entry of each cell of an integer list column, -1 for an empty cell."""
    return _reduced(array, np.maximum)


def _reduced(array: pa.Array, reduction: np.ufunc) -> np.ndarray:
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    values = array.values.to_numpy(zero_copy_only=False)
    result = np.full(len(array), -1, np.int64)
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled):
        result[filled] = reduction.reduceat(values[: offsets[-1]], offsets[filled])
    return result


def same_bytes(left: pa.Array, right: pa.Array) -> bool:
    """Whether two columns of one type hold the same bits; unlike Arrow's equality, NaN equals itself."""
    if len(left) != len(right):
        return False
    if pa.types.is_fixed_size_list(left.type):
        return same_bytes(left.flatten(), right.flatten())
    if pa.types.is_list(left.type):
        same_lengths = np.array_equal(list_lengths(left), list_lengths(right))
        return same_lengths and same_bytes(left.flatten(), right.flatten())
    if pa.types.is_string(left.type) or pa.types.is_boolean(left.type):
        return left.equals(right)
    return left.to_numpy().tobytes() == right.to_numpy().tobytes()


def _item_type(column: Column) -> pa.DataType:
    name = column.dtype.removeprefix("list<").removesuffix(">")
    return _ITEMS[name]


def _as_array_or_sequence(column: Column, values: Any) -> Any:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, (pa.Array, np.ndarray, list, tuple)):
        return values
    if hasattr(values, "__array__"):
        return np.asarray(values)
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return values
    raise SchemaError(
        f"column {column.name!r} got {type(values).__name__}; allowed are a list, a NumPy or an Arrow array"
    )


def _exact(column: Column, array: pa.Array) -> pa.Array:
    wanted = arrow_type(column)
    if array.type != wanted:
        raise _wrong_type(column, str(array.type), where="")
    if array.null_count or (_has_items(column) and array.flatten().null_count):
        raise SchemaError(f"column {column.name!r} got a null; every cell has a value")
    return array


def _has_items(column: Column) -> bool:
    return column.is_list() or column.shape is not None


def _lists(column: Column, rows: Any) -> pa.Array:
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        return _uniform(column, rows)
    flat = [_row_values(column, index, row) for index, row in enumerate(rows)]
    offsets = np.zeros(len(flat) + 1, np.int64)
    np.cumsum([len(row) for row in flat], out=offsets[1:])
    item = _item_type(column)
    values = np.concatenate(flat) if flat else np.empty(0, item.to_pandas_dtype())
    return _from_offsets(column, offsets, values)


def _uniform(column: Column, rows: np.ndarray) -> pa.Array:
    if rows.ndim != 2:
        raise SchemaError(
            f"column {column.name!r} got an array of shape {rows.shape}; allowed is [rows, length]"
        )
    if rows.dtype != _item_type(column).to_pandas_dtype():
        raise _wrong_type(column, f"an array of {rows.dtype}", where="")
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
    return _from_offsets(column, offsets, np.ascontiguousarray(rows).reshape(-1))


def _from_offsets(column: Column, offsets: np.ndarray, values: np.ndarray) -> pa.Array:
    if offsets[-1] > np.iinfo(np.int32).max:
        raise SchemaError(
            f"column {column.name!r} has {offsets[-1]} entries in one put; at most 2147483647: put fewer rows"
        )
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values, _item_type(column)))


def _row_values(column: Column, index: int, row: Any) -> np.ndarray:
    item = _item_type(column)
    if isinstance(row, pa.Array):
        if row.type != item or row.null_count:
            raise _wrong_type(column, f"an Arrow array of {row.type}", where=f" in row {index}")
        return row.to_numpy(zero_copy_only=False)
    if not isinstance(row, (list, tuple)) and hasattr(row, "__array__"):
        row = np.asarray(row)
        if row.dtype != item.to_pandas_dtype() or row.ndim != 1:
            got = f"an array of {row.dtype} with shape {row.shape}"
            raise _wrong_type(column, got, where=f" in row {index}")
        return row
    if not isinstance(row, (list, tuple)):
        raise _wrong_type(column, type(row).__name__, where=f" in row {index}")
    if not row:
        return np.empty(0, item.to_pandas_dtype())
    return _scalars(column, row, where=f" in row {index}").to_numpy(zero_copy_only=False)


def _scalars(column: Column, values: Any, *, where: str) -> pa.Array:
    item = _item_type(column)
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.ndim != 1 or item == pa.string() or values.dtype != item.to_pandas_dtype():
            raise _wrong_type(column, f"an array of {values.dtype} with shape {values.shape}", where=where)
        return pa.array(values)
    kinds = {type(value) for value in values}
    if not kinds:
        return pa.array([], item)
    if not all(_may_hold(item, kind) for kind in kinds):
        raise _wrong_type(column, " and ".join(sorted(kind.__name__ for kind in kinds)), where=where)
    if pa.types.is_floating(item):
        return _floats(column, values, item, where)
    try:
        return pa.array(list(values), item)
    except (pa.ArrowException, OverflowError) as error:
        raise SchemaError(f"column {column.name!r} is {column.dtype}: {error}{where}") from error


def _may_hold(item: pa.DataType, kind: type) -> bool:
    if issubclass(kind, np.generic):
        return item != pa.string() and np.dtype(kind) == np.dtype(item.to_pandas_dtype())
    if pa.types.is_floating(item):
        return kind in (float, int)
    if pa.types.is_integer(item):
        return kind is int
    return kind is (str if item == pa.string() else bool)


def _floats(column: Column, values: Any, item: pa.DataType, where: str) -> pa.Array:
    kind = item.to_pandas_dtype()
    with np.errstate(over="ignore"):
        array = np.array([float(value) for value in values], np.float64).astype(kind)
    for value, held in zip(values, array, strict=True):
        lost = int(held) != value if type(value) is int else np.isinf(held) and not np.isinf(value)
        if lost:
            raise SchemaError(f"column {column.name!r} is {column.dtype} and cannot hold {value!r}{where}")
    return pa.array(array)


def _json(column: Column, index: int, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise SchemaError(f"column {column.name!r} is json: {error} (row {index})") from error


def _wrong_type(column: Column, got: str, *, where: str) -> SchemaError:
    return SchemaError(
        f"column {column.name!r} is {column.dtype} and got {got}{where}; nothing is cast in silence: "
        "convert the values before the put"
    )
