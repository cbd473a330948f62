"""How rows stand in files, by the name that the files end with.

`uids` reads back which rows a file holds, whatever other columns it has.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JSON: Final = pa.json_(pa.string())
"""The type of columns whose cells are JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    write: Callable[[pa.Table, Path], None]
    uids: Callable[[Path], np.ndarray]
    """int64 [n], in the file's order."""


def _write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")


def _parquet_uids(path: Path) -> np.ndarray:
    return pq.read_table(path, columns=["uid"])["uid"].to_numpy()


def _write_jsonl(table: pa.Table, path: Path) -> None:
    columns = {field.name: _values(table[field.name]) for field in table.schema}
    with path.open("w", encoding="utf-8") as file:
        for row in zip(*columns.values(), strict=True):
            file.write(f"{_line(dict(zip(columns, row, strict=True)))}\n")


def _values(column: pa.ChunkedArray) -> list[Any]:
    values = column.to_pylist()
    return [json.loads(text) for text in values] if column.type == JSON else values


def _line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(row), ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    """JSON has no word for NaN and infinity; they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    return [_finite(member) for member in value] if isinstance(value, list) else value


def _jsonl_uids(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8") as lines:
        return np.array([json.loads(line)["uid"] for line in lines], dtype=np.int64)


FORMATS: Final[dict[str, Format]] = {
    "jsonl": Format(write=_write_jsonl, uids=_jsonl_uids),
    "parquet": Format(write=_write_parquet, uids=_parquet_uids),
}
