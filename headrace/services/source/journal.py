"""What a source has drawn and heard, in the run directory: a log that only grows, at times a snapshot.

    <folder>/draws.jsonl   one record a line, each written before what it tells of has an effect
    <folder>/state.json    what the first lines of the log come to, replaced atomically

Invariant: a snapshot covers lines that are safe on disk. A death can tear the last line only, cut off
when the journal is opened again.
"""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.services.errors import ServiceError

log = logging.getLogger(__name__)

Record = dict[str, Any]
"""JSON without NaN."""


class JournalError(ServiceError):
    """A journal that does not fit the run that goes on from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    lines: int
    """Records that it covers."""
    state: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What an earlier life has left."""

    records: list[Record]
    snapshot: Snapshot | None
    """None: there was none."""


class Journal:
    """One source's. `recall` comes first: it makes the log whole and counts its lines."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._aside = folder / "draws.jsonl", folder / "state.json.new"
        self._state = folder / "state.json"
        self.lines = 0

    def recall(self) -> Past:
        """Raises JournalError for a line before the last that is not JSON, or a snapshot of more lines."""
        records = _read(self._path)
        self.lines = len(records)
        return Past(records=records, snapshot=_snapshot(self._state, self.lines))

    def append(self, record: Record, *, safe: bool) -> None:
        """`safe`: with all before it, it survives a loss of power; else a death of the process only."""
        line = json.dumps(record, allow_nan=False) + "\n"
        _write(self._path, "a", line, safe=safe)
        self.lines += 1

    def save(self, state: Record) -> None:
        """A snapshot of what all lines so far come to."""
        whole = json.dumps({"lines": self.lines, "state": state}, allow_nan=False)
        _write(self._path, "a", "", safe=True)
        _write(self._aside, "w", whole, safe=True)
        self._aside.replace(self._state)


def _write(path: Path, mode: str, text: str, *, safe: bool) -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.write(text)
        if safe:
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path) -> list[Record]:
    if not path.exists():
        return []
    *whole, torn = path.read_bytes().split(b"\n")
    if torn:
        log.warning("%s: cut off a torn last line of %d bytes", path, len(torn))
        os.truncate(path, path.stat().st_size - len(torn))
    return [_parsed(line, f"{path}:{number}") for number, line in enumerate(whole, start=1)]


def _snapshot(path: Path, lines: int) -> Snapshot | None:
    if not path.exists():
        return None
    record = _parsed(path.read_bytes(), str(path))
    if record["lines"] > lines:
        raise JournalError(
            f"{path} covers {record['lines']} lines, the log beside it has {lines}: they are of two runs; "
            "put the right log back, or remove both to let the sampler begin anew"
        )
    return Snapshot(lines=record["lines"], state=record["state"])


def _parsed(line: bytes, where: str) -> Record:
    try:
        return json.loads(line)
    except ValueError as error:
        raise JournalError(f"{where}: not JSON: {line[:80]!r}") from error
