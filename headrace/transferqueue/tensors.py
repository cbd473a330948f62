"""Columns of tensors: every cell has the declared shape, and a block holds them as one dense array.

Invariant: no value is cast and no shape is guessed; a view of a whole column is one array [n, *shape].
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.transferqueue.errors import SchemaError
from headrace.transferqueue.schema import Column

if TYPE_CHECKING:
    import torch


def tensor_type(column: Column, item: pa.DataType) -> pa.DataType:
    """The Arrow type of the column's cells: lists of one fixed size, in row-major order."""
    assert column.shape is not None
    return pa.list_(item, math.prod(column.shape))


def tensors_to_arrow(column: Column, item: pa.DataType, values: Any) -> pa.Array:
    """One cell per entry of `values`: an array [n, *shape], or a sequence of arrays of that shape.

    Raises SchemaError on another dtype or shape. A contiguous array passes without a copy, save for bool.
    """
    assert column.shape is not None
    kind = np.dtype(item.to_pandas_dtype())
    if not isinstance(values, np.ndarray):
        cells = [_cell(column, index, value) for index, value in enumerate(values)]
        values = np.stack(cells) if cells else np.empty((0, *column.shape), kind)
    if values.dtype != kind or values.shape[1:] != column.shape:
        raise SchemaError(
            f"column {column.name!r} is {column.dtype} of shape {list(column.shape)} and got {values.dtype} "
            f"of shape {list(values.shape)}; an array [rows, *shape] of exactly that type is due"
        )
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), item)
    return pa.FixedSizeListArray.from_arrays(flat, math.prod(column.shape))


def arrow_to_tensors(column: Column, array: pa.Array) -> np.ndarray:
    """[n, *shape]: a view, save for bool, which Arrow keeps as bits."""
    assert column.shape is not None
    return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), *column.shape)


def as_torch(array: pa.Array) -> "torch.Tensor":
    """The values of a flat Arrow array as a torch tensor [n] on the same memory; bool is copied.

    The memory is a private mapping: what is written to it nobody else sees.
    """
    import torch

    if pa.types.is_boolean(array.type):
        return torch.from_numpy(array.to_numpy(zero_copy_only=False).copy())
    return torch.from_dlpack(array)


def _cell(column: Column, index: int, value: Any) -> np.ndarray:
    cell = np.asarray(value)
    if cell.shape != column.shape:
        raise SchemaError(
            f"column {column.name!r} has cells of shape {list(column.shape or ())}; row {index} has shape "
            f"{list(cell.shape)}"
        )
    return cell
