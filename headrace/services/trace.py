"""Where a replica's time goes, and when it had each row: lines of JSON in a file of its own.

    {"put": [7, 8], "table": "prompts", "at": 10.0}
    {"rows": [7], "table": "prompts", "leased": 10.5, "made": 11.75, "written": 11.8}
    {"span": "load version 3 of actor", "began": 12.0, "ended": 12.25}

Times are Unix seconds of the machine that wrote them; `headrace trace` reads them. Invariant: tracing
disturbs nobody: what finds no room is lost and counted, and a replica keeps at most two files of MOST_BYTES.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

FOLDER: Final = "trace"
OLDER: Final = ".older.jsonl"
MOST_BYTES: Final = 32 << 20
log = logging.getLogger(__name__)


class Trace:
    """Of one replica; used in its loop's thread. Without a file it forgets."""

    def __init__(
        self,
        file: Path | None = None,
        *,
        now: Callable[[], float] = time.time,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.now = now
        self.lost = 0
        """Lines that could not be written."""
        self._path = file
        self._most_bytes = most_bytes
        self._file: BinaryIO | None = None
        self._size = 0

    def put(self, table: str, uids: np.ndarray) -> None:
        """New rows are in a table now."""
        if self._path is not None:
            self._write({"put": uids.tolist(), "table": table, "at": self.now()})

    def rows(self, table: str, uids: np.ndarray, *, leased: float, made: float) -> None:
        """Rows that were leased and made are written now."""
        if self._path is not None:
            times = {"leased": leased, "made": made, "written": self.now()}
            self._write({"rows": uids.tolist(), "table": table, **times})

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        began = self.now()
        try:
            yield
        finally:
            if self._path is not None:
                self._write({"span": what, "began": began, "ended": self.now()})

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self.lost:
            log.warning("%s: %d lines of the trace found no room", self._path, self.lost)

    def _write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            self._opened(len(data)).write(data)
            self._size += len(data)
        except OSError:
            self.lost += 1

    def _opened(self, more: int) -> BinaryIO:
        path = self._path
        assert path is not None
        if self._file is not None and self._size + more > self._most_bytes:
            self._file.close()
            path.replace(path.with_suffix(OLDER))
            self._file = None
        if self._file is None:
            path.parent.mkdir(exist_ok=True)
            self._file = path.open("ab", buffering=0)
            self._size = self._file.tell()
        return self._file


def trace_file(run_dir: Path, replica: str) -> Path:
    """ "answers/0" writes trace/answers-0.jsonl."""
    return run_dir / FOLDER / f"{replica.replace('/', '-')}.jsonl"
