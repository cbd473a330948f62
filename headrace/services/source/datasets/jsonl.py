"""A JSONL file: each line has a `prompt` (text or chat messages), the rest is for the verifier.

Every line is checked when the file is opened; afterwards only the lines' offsets are held in memory.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from headrace.services.options import JsonlData
from headrace.services.source.datasets.base import DatasetError, Example


class JsonlFile:
    def __init__(self, options: JsonlData) -> None:
        self._path = Path(options.path)
        if not self._path.is_file():
            raise DatasetError(f"jsonl: there is no file {self._path.absolute()}; set dataset.path to one")
        self._offsets = self._scan()

    def _scan(self) -> np.ndarray:
        offsets, offset = [], 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    _parse(line, f"{self._path}:{number}")
                    offsets.append(offset)
                offset += len(line)
        if not offsets:
            raise DatasetError(f"jsonl: {self._path} has no line; each line is an object with a `prompt`")
        return np.asarray(offsets, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> Example:
        with self._path.open("rb") as file:
            file.seek(int(self._offsets[index]))
            return _parse(file.readline(), f"{self._path}, entry {index}")


def _parse(line: bytes, where: str) -> Example:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise DatasetError(f"{where}: not a line of JSON: {error}") from error
    if not isinstance(entry, dict) or "prompt" not in entry:
        raise DatasetError(f"{where}: each line must be an object with the key `prompt`; got {line[:80]!r}")
    prompt = entry.pop("prompt")
    if not ((isinstance(prompt, str) and prompt) or _is_chat(prompt)):
        raise DatasetError(
            f"{where}: `prompt` must be text, or a list of messages with `role` and `content`;"
            f" got {json.dumps(prompt)[:80]}"
        )
    return Example(prompt=prompt, example=entry)


def _is_chat(prompt: Any) -> bool:
    return (
        isinstance(prompt, list)
        and bool(prompt)
        and all(isinstance(message, dict) and {"role", "content"} <= message.keys() for message in prompt)
    )
