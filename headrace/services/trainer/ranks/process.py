"""One rank's process, from the side of rank 0: started, told, listened to, ended.

Invariant: no wait is without a deadline, and whatever this process comes to, its child ends with it: the
child's pipe closes, and on Linux the kernel ends it too.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.services.trainer.ranks.wire import LENGTH, unpack

AT_ONCE = 1 << 20
"""Bytes read or written between two looks at the clock."""
ENDING_S = 10.0
"""Until a process that closed its pipe, or was killed, is gone."""


class RankLost(Exception):
    """A rank that ended or did not answer; says which and of what."""


class RankProcess:
    """`send`, then `answer`; `end` at any time."""

    def __init__(self, rank: int, log_file: Path) -> None:
        """Starts it; what it prints is appended to `log_file`."""
        self.rank = rank
        self._log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.services.trainer.ranks.worker", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._asks, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._asks.fileno(), False)
        os.set_blocking(self._answers.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, frame: bytes, deadline: float) -> None:
        """`deadline`: of `time.monotonic`. Raises RankLost."""
        left, pipe = memoryview(frame), self._asks.fileno()
        while left:
            self._wait([], [pipe], deadline)
            try:
                left = left[os.write(pipe, left[:AT_ONCE]) :]
            except BrokenPipeError:
                raise self._ended() from None

    def answer(self, deadline: float) -> dict[str, Any]:
        """What it answered to the frame before. Raises RankLost."""
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        return unpack(self._read(length, deadline))

    def end(self) -> None:
        """Kills it where it still runs, and waits until it is gone."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._asks.close()
        self._answers.close()

    def _read(self, size: int, deadline: float) -> bytes:
        parts, missing, pipe = [], size, self._answers.fileno()
        while missing:
            self._wait([pipe], [], deadline)
            part = os.read(pipe, min(missing, AT_ONCE))
            if not part:
                raise self._ended()
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _wait(self, readable: list[int], writable: list[int], deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not any(select.select(readable, writable, [], left)):
            raise RankLost(
                f"rank {self.rank} (process {self.pid}) did not answer in time{self._last_words()}"
            )

    def _ended(self) -> RankLost:
        try:
            code = self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            return RankLost(f"rank {self.rank} (process {self.pid}) closed its pipe{self._last_words()}")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return RankLost(f"rank {self.rank} (process {self.pid}) {how}{self._last_words()}")

    def _last_words(self) -> str:
        """The last line of its log, and where that is."""
        lines = self._log_file.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return (
            f"; its log, {self._log_file}, ends: {last}" if last else f"; its log, {self._log_file}, is empty"
        )
