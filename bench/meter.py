"""Processor time of a command and of all that it starts, step by step, as it says on its standard output."""

import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

TICKS = os.sysconf("SC_CLK_TCK")
STEP = "step "
"""How a line begins that says that a step has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    returncode: int
    output: str = field(repr=False)
    cpu_s: tuple[float, ...]
    """At the end of each step that was said."""

    def cpu_s_per_step(self, warmup: int) -> float | None:
        """Mean over the steps between the first `warmup` ones and the last, at whose end processes may be
        gone; None where there are none."""
        kept = self.cpu_s[warmup:-1]
        return (kept[-1] - kept[0]) / (len(kept) - 1) if len(kept) > 1 else None


def run(words: Sequence[str], *, folder: Path, errors: IO[str], timeout_s: float) -> Done:
    """Runs to the end, which is a kill after `timeout_s`."""
    lines: list[str] = []
    marks: list[float] = []
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        assert process.stdout is not None
        limit = threading.Timer(timeout_s, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                lines.append(line)
                if line.startswith(STEP):
                    marks.append(cpu_s(process.pid))
        finally:
            limit.cancel()
    return Done(returncode=process.returncode, output="".join(lines), cpu_s=tuple(marks))


def cpu_s(root: int) -> float:
    """Of the process `root` and of those that descend from it, as the kernel has counted so far."""
    parent: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(entry)):
            parent[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    return sum(ticks for pid, ticks in used.items() if _descends(pid, root, parent)) / TICKS


def _stat(process: Path) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on; none where the process has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _descends(pid: int, root: int, parent: dict[int, int]) -> bool:
    while pid in parent and pid != root:
        pid = parent[pid]
    return pid == root
