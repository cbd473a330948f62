"""Transforms within the service that reads from them: new columns of leased rows, made where they are read.

A transform is a pure function of a row's columns: every reader calls it for itself, and again when a row is
leased again, so what it gives may depend on nothing else. Nothing of it is kept in the queue.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.services.errors import TransformError
from headrace.services.functions import cells, load
from headrace.services.options import TransformOptions
from headrace.transferqueue import Column, Rows, SchemaError


class Transforms:
    """Those that run within one node, in order: `rows = transforms(rows)`."""

    def __init__(self, options: Sequence[TransformOptions]) -> None:
        """Raises TransformError where a function is not there or does not take its columns."""
        self._transforms = [_Transform(each) for each in options]

    def __bool__(self) -> bool:
        return bool(self._transforms)

    def __call__(self, rows: Rows) -> Rows:
        """`rows` with the columns of every transform; TransformError names the function and the row."""
        for transform in self._transforms:
            rows = transform(rows)
        return rows


class _Transform:
    def __init__(self, options: TransformOptions) -> None:
        self._path = options.function
        self._reads = options.columns
        self._writes = [Column(name=name, dtype=dtype) for name, dtype in options.writes.items()]
        try:
            self._function = load(options.function, options.columns)
        except (ValueError, ImportError) as error:
            raise TransformError(str(error)) from error

    def __call__(self, rows: Rows) -> Rows:
        given = [cells(rows, name) for name in self._reads]
        made: dict[str, list[Any]] = {column.name: [] for column in self._writes}
        for uid, *values in zip(rows.uids.tolist(), *given, strict=True):
            for name, value in self._row(uid, dict(zip(self._reads, values, strict=True))).items():
                made[name].append(value)
        return rows.with_columns({c: self._fitted(c, made[c.name], rows) for c in self._writes})

    def _row(self, uid: int, columns: dict[str, Any]) -> Mapping[str, Any]:
        try:
            made = self._function(**columns)
        except Exception as error:
            raise TransformError(f"{self._path} raised on row {uid}") from error
        declared = [column.name for column in self._writes]
        if not isinstance(made, Mapping) or set(made) != set(declared):
            got = f"the keys {list(made)}" if isinstance(made, Mapping) else repr(made)[:80]
            raise TransformError(
                f"{self._path} gave {got} for row {uid}; `writes` declares {', '.join(declared)}: return a "
                "mapping with exactly these keys, or change `writes`"
            )
        return made

    def _fitted(self, column: Column, values: list[Any], rows: Rows) -> pa.Array:
        try:
            return column.to_arrow(values)
        except SchemaError as error:
            uid = next(u for u, v in zip(rows.uids.tolist(), values, strict=True) if not _fits(column, v))
            raise TransformError(
                f"{self._path} gave for row {uid} what {column.name} cannot hold; return a value of that "
                "type, or change `writes`"
            ) from error


def _fits(column: Column, value: Any) -> bool:
    try:
        column.to_arrow([value])
    except SchemaError:
        return False
    return True
