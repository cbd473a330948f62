"""Hands points to one tracker in a process of its own, beside the run.

    offer ─► queue of MOST points ─► thread ─► the process's standard input, a line of JSON a point
                                     thread ◄─ its standard output, a byte for each that the tracker has taken

Invariant: `offer` never waits. A process that is gone, or too slow for the queue, costs points, which are
counted. The process ends when its input does, so that it outlives no launch that was killed.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final

from headrace.dataflow.record.trackers.points import Point

MOST: Final = 4096
"""Points that wait for a tracker; those beyond are missed."""
COMMAND: Final = (sys.executable, "-m", "headrace.dataflow.record.trackers.process")


class Feed:
    """Of one tracker: `offer` any number of points, then `finish` and `close`."""

    def __init__(
        self,
        opening: Mapping[str, Any],
        log: Path,
        *,
        command: Sequence[str] = COMMAND,
        most: int = MOST,
    ) -> None:
        """`opening`: what the process is told first; `log`: takes what it prints."""
        self._log = log
        self._most = most
        self._lines: Queue[bytes | None] = Queue()
        self._offered = self._taken = 0
        with log.open("ab") as output:
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=output, start_new_session=True
            )
        self._lines.put(json.dumps(opening).encode())
        self._threads = [
            Thread(target=work, name=f"{log.stem}: {work.__name__}", daemon=True)
            for work in (self._hand_over, self._count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def missed(self) -> int:
        """Points that the tracker has not taken, those on their way included."""
        return self._offered - self._taken

    def offer(self, point: Point) -> None:
        """Where too many wait, or the process is gone, the point is missed."""
        self._offered += 1
        if self._is_going() and self._lines.qsize() < self._most:
            self._lines.put(json.dumps(asdict(point)).encode())

    def failure(self) -> str | None:
        """Why the process ended by itself, or had to be; None: it goes on, or ended well."""
        code = self._child.poll()
        return None if code in (None, 0) else self._last_words() or f"its process ended with {code}"

    def finish(self) -> None:
        """No further point comes; the process ends once the tracker has what it was handed."""
        self._lines.put(None)

    def ended(self, within_s: float) -> bool:
        """Waits so long for the process to end."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(within_s)
        return not self._is_going()

    def close(self, *, within_s: float) -> None:
        """After `finish`: a process that has not ended by then is killed, with those that it started."""
        if not self.ended(within_s):
            with self._log.open("a") as output:
                output.write("it had not finished in its time after the run, and was ended\n")
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        self._drain()
        for thread in self._threads:
            thread.join()

    def _hand_over(self) -> None:
        pipe = self._child.stdin
        assert pipe is not None
        with suppress(BrokenPipeError), pipe:
            while (line := self._lines.get()) is not None:
                pipe.write(line + b"\n")
                pipe.flush()

    def _count(self) -> None:
        pipe = self._child.stdout
        assert pipe is not None
        with pipe:
            while taken := os.read(pipe.fileno(), 4096):
                self._taken += len(taken)

    def _is_going(self) -> bool:
        return self._child.poll() is None

    def _drain(self) -> None:
        """Leaves nothing but the end in the queue."""
        with suppress(Empty):
            while True:
                self._lines.get_nowait()
        self._lines.put(None)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
