"""What can be said of a data set before its entries are read: how many there are, and their keys."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from headrace.services.options import Dataset, HuggingFaceData, JsonlData, ParquetData
from headrace.services.source.datasets.columnar import wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    size: int | None
    """Prompts in one epoch; None: it cannot be told yet."""
    keys: Collection[str] | None
    """Of its entries, where it is written; None: it is not, or they cannot be told yet."""


def glance(dataset: Dataset) -> Glance:
    """Raises DatasetError where the data set cannot be opened, OSError where a file cannot be read."""
    match dataset:
        case JsonlData():
            return _jsonl(Path(dataset.path))
        case ParquetData():
            return _parquet(dataset)
        case HuggingFaceData():
            return _hugging_face(dataset)
        case _:
            return Glance(size=dataset.size, keys=None)


def _jsonl(path: Path) -> Glance:
    """The keys are those of the first line; none where it is no object."""
    with path.open("rb") as file:
        size = sum(1 for line in file if line.strip())
        file.seek(0)
        lines = list(islice(filter(bytes.strip, file), 1))
    try:
        first = json.loads(lines[0]) if lines else {}
    except ValueError:
        first = {}
    return Glance(size=size, keys=tuple(first) if isinstance(first, dict) else ())


def _parquet(dataset: ParquetData) -> Glance:
    from headrace.services.source.datasets.parquet import open_file

    file = open_file(dataset)
    names = file.schema_arrow.names
    wanted(dataset, names)
    return Glance(size=file.metadata.num_rows, keys=tuple(names))


def _hugging_face(dataset: HuggingFaceData) -> Glance:
    """Of a folder of data files, which is yet to be converted, nothing can be told."""
    from headrace.services.source.datasets.hugging_face import is_ready, opened

    if not is_ready(dataset):
        return Glance(size=None, keys=None)
    rows = opened(dataset)
    wanted(dataset, rows.column_names)
    return Glance(size=len(rows), keys=tuple(rows.column_names))
