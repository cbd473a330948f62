"""An algorithm that writes down what it is given, and otherwise learns as GRPO does."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.algorithms.base import Advantages, GroupScores
from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.options import GrpoOptions


class Recorded(ClippedRatio):
    """Appends a line to `file` for each lease: groups and rewards, and by row the columns of `columns`;
    `policy` tells several in one file apart. Raises at its line `fails_at`; 0: at none. Learns nothing
    before the file `waits_for` has `lines` lines."""

    def __init__(
        self,
        *,
        file: str,
        policy: str = "",
        columns: Sequence[str] = (),
        fails_at: int = 0,
        waits_for: str = "",
        lines: int = 0,
    ) -> None:
        super().__init__(GrpoOptions(sequence_length=8))
        self._waits_for, self._lines = Path(waits_for), lines
        self._file, self._policy, self._fails_at = Path(file), policy, fails_at
        self._columns = ("response_ids", "versions", *columns)

    def needs(self) -> tuple[str, ...]:
        return self._columns

    def advantages(self, scores: GroupScores) -> Advantages:
        said: dict[str, Any] = {name: [v.tolist() for v in scores.column(name)] for name in self._columns}
        said |= {"policy": self._policy} if self._policy else {}
        said |= {"groups": scores.groups.tolist(), "rewards": scores.rewards.tolist()}
        with self._file.open("a") as file:
            file.write(json.dumps(said) + "\n")
        if len(self._file.read_text().splitlines()) == self._fails_at:
            raise RuntimeError(f"line {self._fails_at} fails, as asked")
        while self._lines and _lines(self._waits_for) < self._lines:
            time.sleep(0.02)
        return super().advantages(scores)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
