"""The traces of a run, once read: when each row was put, and when each node had it; what each replica did.

Invariant: of a row that a node wrote more than once, as after a rewind, the last time counts. A line that a
crash or a full disk tore is passed over and counted.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.services.trace import FOLDER, OLDER

RowKey = tuple[str, int]
"""Table and uid."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A row at a node, Unix seconds."""

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
        folder = RunDir.open(run_dir).path / FOLDER
        files = sorted(folder.glob("*.jsonl"), key=lambda file: (not file.name.endswith(OLDER), file.name))
        if not files:
            raise RunDirError(f"{run_dir} has no traces in {FOLDER}/; a launch of this version writes them")
        traces = cls()
        for file in files:
            traces._add(_replica(file), file)
        return traces

    def _add(self, replica: str, file: Path) -> None:
        node = replica.rpartition("/")[0]
        for line in self._lines(file):
            if "span" in line:
                self.spans.append(Span(replica, line["span"], line["began"], line["ended"]))
            elif "put" in line:
                self.puts.update(((line["table"], uid), line["at"]) for uid in line["put"])
            else:
                visit = Visit(line["leased"], line["made"], line["written"])
                for uid in line["rows"]:
                    self._visit((line["table"], uid), node, visit)

    def _visit(self, row: RowKey, node: str, visit: Visit) -> None:
        visits = self.visits.setdefault(row, {})
        if node not in visits or visits[node].written < visit.written:
            visits[node] = visit

    def _lines(self, file: Path) -> Iterator[dict[str, Any]]:
        with file.open("rb") as lines:
            for line in lines:
                try:
                    yield json.loads(line)
                except ValueError:
                    self.torn += 1


def _replica(file: Path) -> str:
    node, _, index = file.name.removesuffix(OLDER).removesuffix(".jsonl").rpartition("-")
    return f"{node}/{index}"
