"""Runs of the real command line in a process of its own, and what they leave behind."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

COMMAND = (sys.executable, "-m", "headrace.dataflow.cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int
    out: str
    err: str
    directory: Path

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.directory / "summary.json").read_text())

    @property
    def steps(self) -> list[dict[str, Any]]:
        lines = (self.directory / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if "step" in record]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / "events.jsonl").read_text().splitlines()]


def headrace(*arguments: str, directory: Path, timeout_s: float = 240.0) -> Ended:
    """Runs `headrace run ... --output directory` to its end."""
    with started(*arguments, directory=directory) as process:
        out, err = process.communicate(timeout=timeout_s)
    return Ended(code=process.returncode, out=out, err=err, directory=directory)


@contextmanager
def started(*arguments: str, directory: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A run that goes on; killed with all its processes if the test leaves it. `directory`: of a new run."""
    output = [] if directory is None else ["--output", str(directory)]
    process = subprocess.Popen(
        [*COMMAND, "run", *arguments, *output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            for child in [*psutil.Process(process.pid).children(recursive=True), process]:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.communicate()


def until(process: subprocess.Popen[str], seen: Callable[[str], bool]) -> str:
    """Reads the run's plain progress line by line until `seen`; fails when the run ends before."""
    assert process.stdout is not None
    for line in process.stdout:
        if seen(line):
            return line
    raise AssertionError(f"the run ended first: {process.stderr.read() if process.stderr else ''}")


def replica_pid(directory: Path, replica: str) -> int:
    """Process of the replica's newest start."""
    lines = (directory / "events.jsonl").read_text().splitlines()
    starts = [e for e in map(json.loads, lines) if e["event"] == "started" and e["replica"] == replica]
    return int(starts[-1]["pid"])


def queue_pid(directory: Path) -> int:
    """Process of the queue's controller, as it was first started."""
    lines = (directory / "events.jsonl").read_text().splitlines()
    return next(int(e["pid"]) for e in map(json.loads, lines) if e["event"] == "queue_started")


def newest_queue_pid(directory: Path) -> int:
    """Process of the queue's controller, as it was last started."""
    lines = (directory / "events.jsonl").read_text().splitlines()
    starts = [e for e in map(json.loads, lines) if e["event"] in ("queue_started", "queue_restarted")]
    return int(starts[-1]["pid"])
