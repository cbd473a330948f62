"""How fast each node gets on: rows a second over the last while, from what replicas and trainers report.

Pure: records and times in, rates out. A replica counts since its own start, so that a count which falls is
that of a new life.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Final

from headrace.dataflow.record.telemetry import METRICS, Record

WINDOW_S: Final = 30.0
COUNTED: Final = ("rows_done", "data/prompts_written")
"""Counts since a replica's start; those of a source are prompts."""
OF_STEP: Final = "samples/trained"
"""Rows of one step."""


class Pace:
    """Rows of each node over the last `window_s` seconds."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._counts: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._done: dict[str, deque[tuple[float, float]]] = defaultdict(deque)

    def take(self, record: Record) -> None:
        """A record of telemetry; those that count no rows are passed over."""
        if record.kind != METRICS:
            return
        if record.step is not None:
            self._add(record.node, record.at, float(record.body.get(OF_STEP, 0.0)))
            return
        for name in COUNTED:
            if (count := record.body.get(name)) is not None:
                before = self._counts.get(record.source)
                self._counts[record.source] = count
                if before is None:
                    self._since.setdefault(record.node, record.at)
                else:
                    self._add(record.node, record.at, count - before if count >= before else count)

    def rates(self, now: float) -> Mapping[str, float]:
        """Rows a second by node, for those that have counted any; `now`: Unix seconds."""
        return {node: self._rate(node, now) for node in self._since}

    def _add(self, node: str, at: float, rows: float) -> None:
        self._since.setdefault(node, at)
        self._done[node].append((at, rows))
        self._forget(node, at)

    def _rate(self, node: str, now: float) -> float:
        self._forget(node, now)
        seconds = min(now - self._since[node], self._window_s)
        return sum(rows for _, rows in self._done[node]) / seconds if seconds > 0 else 0.0

    def _forget(self, node: str, now: float) -> None:
        done = self._done[node]
        while done and done[0][0] <= now - self._window_s:
            done.popleft()
