"""A JSONL file: each line has a prompt (text, chat messages or token ids), the rest is for the verifier.

Every line is checked when the file is opened; afterwards only the lines' offsets are held in memory.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from headrace.services.options import JsonlData
from headrace.services.source.datasets.base import DatasetError, Example, Labels
from headrace.services.source.datasets.entries import example_of, labels_of


class JsonlFile:
    def __init__(self, options: JsonlData) -> None:
        self._options = options
        self._path = Path(options.path)
        if not self._path.is_file():
            raise DatasetError(f"jsonl: there is no file {self._path.absolute()}; set dataset.path to one")
        self._offsets = self._scan()

    def _scan(self) -> np.ndarray:
        offsets, offset = [], 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    where = f"{self._path}:{number}"
                    example_of(_parse(line, where), self._options, where)
                    offsets.append(offset)
                offset += len(line)
        if not offsets:
            raise DatasetError(f"jsonl: {self._path} has no line; each line is an object with a `prompt`")
        return np.asarray(offsets, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Example:
        return example_of(self._entry(index), self._options, self._where(index))

    def labels(self) -> Labels:
        """Reads the file through for each key. Raises DatasetError where only some lines have it."""
        return labels_of(self._options, self._column, self._where)

    def _column(self, key: str) -> list[Any]:
        with self._path.open("rb") as file:
            return [_parse(line, str(self._path)).get(key) for line in file if line.strip()]

    def _entry(self, index: int) -> dict[str, Any]:
        with self._path.open("rb") as file:
            file.seek(int(self._offsets[index]))
            return _parse(file.readline(), self._where(index))

    def _where(self, index: int) -> str:
        return f"{self._path}, entry {index}"


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise DatasetError(f"{where}: not a line of JSON: {error}") from error
    if not isinstance(entry, dict):
        raise DatasetError(f"{where}: each line must be an object with a prompt; got {line[:80]!r}")
    return entry
