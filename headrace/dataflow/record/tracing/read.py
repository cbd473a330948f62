"""The traces of a run, once read: when each row was put, and when each node had it; what each replica did.

Invariant: of a row that a node wrote more than once, as after a rewind, the last time counts. A line that a
crash or a full disk tore is passed over and counted.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from typing import Any, Final, Self

from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.services.trace import FOLDER, OLDER

TAIL_BYTES: Final = 4 << 20
"""Of each file, read for a single row."""

RowKey = tuple[str, int]
"""Table and uid."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A row at a replica, Unix seconds."""

    replica: str
    leased: float
    made: float
    written: float


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a replica did, Unix seconds."""

    replica: str
    what: str
    began: float
    ended: float


@dataclass(slots=True, kw_only=True)
class Traces:
    puts: dict[RowKey, float] = field(default_factory=dict, repr=False)
    visits: dict[RowKey, dict[str, Visit]] = field(default_factory=dict, repr=False)
    """By row and node."""
    spans: list[Span] = field(default_factory=list, repr=False)
    torn: int = 0
    """Lines that are not whole."""

    @classmethod
    def read(cls, run_dir: Path) -> Self:
        """Raises RunDirError where `run_dir` is no run's, or has no traces."""
        files = _files(run_dir)
        if not files:
            raise RunDirError(f"{run_dir} has no traces in {FOLDER}/; a launch of this version writes them")
        traces = cls()
        for file in files:
            with file.open("rb") as lines:
                traces._add(_replica(file), lines)
        return traces

    @classmethod
    def near_end(cls, run_dir: Path, uid: int, *, tail_bytes: int = TAIL_BYTES) -> Self:
        """What the ends of the files say of rows of that uid, and of those that were had with it, in bounded
        time."""
        traces = cls()
        mark = re.compile(rb"[\[, ]%d[\],]" % uid)
        for file in _files(run_dir):
            traces._add(_replica(file), [line for line in _tail(file, tail_bytes) if mark.search(line)])
        return traces

    def _add(self, replica: str, lines: Iterable[bytes]) -> None:
        for line in self._parsed(lines):
            if "span" in line:
                self.spans.append(Span(replica, line["span"], line["began"], line["ended"]))
            elif "put" in line:
                self.puts.update(((line["table"], uid), line["at"]) for uid in line["put"])
            else:
                visit = Visit(replica, line["leased"], line["made"], line["written"])
                for uid in line["rows"]:
                    self._visit((line["table"], uid), visit)

    def _visit(self, row: RowKey, visit: Visit) -> None:
        node = visit.replica.rpartition("/")[0]
        visits = self.visits.setdefault(row, {})
        if node not in visits or visits[node].written < visit.written:
            visits[node] = visit

    def _parsed(self, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                self.torn += 1


def _files(run_dir: Path) -> list[Path]:
    """Those of each replica's that are older come first."""
    folder = RunDir.open(run_dir).path / FOLDER
    return sorted(folder.glob("*.jsonl"), key=lambda file: (not file.name.endswith(OLDER), file.name))


def _tail(file: Path, tail_bytes: int) -> list[bytes]:
    """The last whole lines."""
    with file.open("rb") as lines:
        skipped = max(lines.seek(0, SEEK_END) - tail_bytes, 0)
        lines.seek(skipped)
        found = lines.read().splitlines()
    return found[1:] if skipped else found


def _replica(file: Path) -> str:
    node, _, index = file.name.removesuffix(OLDER).removesuffix(".jsonl").rpartition("-")
    return f"{node}/{index}"
