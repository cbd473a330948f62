"""A Parquet file: each row has a prompt, the other columns are for the verifier.

Every row is checked when the file is opened, a batch at a time; afterwards row groups are read as their rows
are asked for, and the last few are kept, so that a file larger than memory can be drawn from. A file that is
to be shuffled is best written in row groups of some thousand rows.
"""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.services.options import ParquetData
from headrace.services.source.datasets.base import DatasetError, Example, Labels
from headrace.services.source.datasets.columnar import check_rows, row_example, wanted, where
from headrace.services.source.datasets.entries import labels_of

MAX_KEPT_BYTES = 256 << 20
"""Of row groups in memory; the last is kept whatever its size."""
BATCH = 1024
"""Rows that are checked at once."""


class ParquetRows:
    def __init__(self, options: ParquetData) -> None:
        self._options = options
        self._file = open_file(options)
        self._columns = wanted(options, self._file.schema_arrow.names)
        groups = range(self._file.num_row_groups)
        rows = [self._file.metadata.row_group(group).num_rows for group in groups]
        self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        self._kept: OrderedDict[int, pa.Table] = OrderedDict()
        check_rows(self._rows(), options)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: int) -> Example:
        group = int(np.searchsorted(self._starts, index, side="right")) - 1
        (row,) = _plain(self._group(group).slice(index - int(self._starts[group]), 1))
        return row_example(row, self._options, where(self._options, index))

    def labels(self) -> Labels:
        """Raises DatasetError where only some rows have a domain or a pass rate."""
        return labels_of(self._options, self._column, lambda index: where(self._options, index))

    def _column(self, key: str) -> list[Any]:
        if key not in self._file.schema_arrow.names:
            return []
        return self._file.read([key], use_threads=False).column(0).to_pylist()

    def _rows(self) -> Iterator[dict[str, Any]]:
        for batch in self._file.iter_batches(BATCH, columns=self._columns, use_threads=False):
            yield from _plain(batch)

    def _group(self, number: int) -> pa.Table:
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        self._kept[number] = self._file.read_row_group(number, columns=self._columns, use_threads=False)
        while len(self._kept) > 1 and sum(table.nbytes for table in self._kept.values()) > MAX_KEPT_BYTES:
            self._kept.popitem(last=False)
        return self._kept[number]


def open_file(options: ParquetData) -> pq.ParquetFile:
    """Reads the file's end, and none of its rows. Raises DatasetError."""
    path = Path(options.path)
    if not path.is_file():
        raise DatasetError(f"parquet: there is no file {path.absolute()}; set dataset.path to one")
    try:
        return pq.ParquetFile(path, memory_map=True)
    except pa.ArrowInvalid as error:
        raise DatasetError(
            f"parquet: {path} is no Parquet file ({error}); set dataset.path to one"
        ) from error


def _plain(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    return rows.to_pylist(maps_as_pydicts="strict")
