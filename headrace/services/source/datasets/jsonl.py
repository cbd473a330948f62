"""A JSONL file: each line has a `prompt` (text or chat messages), the rest is for the verifier.

Every line is checked when the file is opened; afterwards only the lines' offsets are held in memory.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from headrace.services.options import JsonlData
from headrace.services.source.datasets.base import DatasetError, Example, Labels


class JsonlFile:
    def __init__(self, options: JsonlData) -> None:
        self._path = Path(options.path)
        self._domain_key, self._rate_key = options.domain_key, options.pass_rate_key
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

    def labels(self) -> Labels:
        """Reads the file through once more. Raises DatasetError where only some lines have a key."""
        entries = [self[index].example for index in range(len(self))]
        values = self._column(entries, self._domain_key)
        rates = self._column(entries, self._rate_key)
        for number, rate in enumerate(rates):
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
                raise DatasetError(
                    f"{self._path}, entry {number}: `{self._rate_key}` is {rate!r}; a pass rate is a number "
                    "from 0 to 1"
                )
        names = _ranked(values)
        place = {name: number for number, name in enumerate(names)}
        return Labels(
            names=tuple(map(str, names)),
            domains=np.array([place[value] for value in values], dtype=np.int64) if values else None,
            pass_rates=np.array(rates, dtype=np.float64) if rates else None,
        )

    def _column(self, entries: list[dict[str, Any]], key: str) -> list[Any]:
        """Values of a key that every entry has; none where no entry has it."""
        found = [entry[key] for entry in entries if isinstance(entry.get(key), str | int | float)]
        if found and len(found) < len(entries):
            first = next(
                n for n, entry in enumerate(entries) if not isinstance(entry.get(key), str | int | float)
            )
            raise DatasetError(
                f"{self._path}, entry {first}: `{key}` is {entries[first].get(key)!r}, other lines have a "
                "number or a text there; give every line one, or none"
            )
        return found


def _ranked(values: list[Any]) -> list[Any]:
    """Distinct values: numbers from the lowest up, others as they first come."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(isinstance(value, int | float) for value in distinct) else distinct


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
