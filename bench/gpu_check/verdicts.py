"""A path's child: started, waited for until its limit, ended with all that it started, its verdict read."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Literal

from bench.gpu_check.path import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    path: str
    verdict: Literal["PASS", "FAIL", "SKIP"]
    seconds: float
    reason: str
    """Of a path that passed its figures."""
    figures: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.verdict} {self.path} {self.seconds:.1f}s {self.reason}"


def run(path: Path, device: str, folder: File, limit_s: float) -> Outcome:
    """What a path comes to on `device`; its log and its result lie in `folder`."""
    began = time.monotonic()
    result, log = folder / f"{path.name}.json", folder / f"{path.name}.log"
    with log.open("wb") as written:
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.gpu_check.child", device, str(result), path.call, *path.needs],
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code: int | None = child.wait(limit_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _end(child)
    seconds = time.monotonic() - began
    if code == 0 and result.is_file():
        return Outcome(path=path.name, seconds=seconds, **json.loads(result.read_text()))
    how = f"no end after {limit_s:.0f} s" if code is None else f"its process ended with code {code}"
    return Outcome(path=path.name, verdict="FAIL", seconds=seconds, reason=f"{how}; {_last_line(log)}")


def _end(child: "subprocess.Popen[bytes]") -> None:
    """The whole session: workers of a path that hangs hold the card."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _last_line(log: File) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"last of {log}: {lines[-1]}" if lines else f"{log} is empty"
