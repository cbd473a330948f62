"""Runs of the real command line in a process of its own, and what they leave behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from headrace.dataflow.record.rundir import read_jsonl

COMMAND = (sys.executable, "-m", "headrace.dataflow.cli")
OF_RUN = "HEADRACE_TEST_RUN"
"""Variable that every process of a run has from it; see `processes`."""
PATIENCE_S = 240.0
"""For a run to end; it is there so that one that hangs is told from one that is slow."""


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
        return steps(self.directory)

    @property
    def events(self) -> list[dict[str, Any]]:
        return events(self.directory)


def events(directory: Path, *kinds: str) -> list[dict[str, Any]]:
    """What a run, which may go on, has said so far; of all kinds where none is named."""
    found = read_jsonl(directory / "events.jsonl").records
    return [event for event in found if not kinds or event["event"] in kinds]


def steps(directory: Path, policy: str | None = None) -> list[dict[str, Any]]:
    """Records of the steps that a run, which may go on, has made so far, of one policy or of all."""
    found = read_jsonl(directory / "metrics.jsonl").records
    return [line for line in found if "step" in line and policy in (None, line["policy"])]


def headrace(*arguments: str, directory: Path, timeout_s: float = PATIENCE_S) -> Ended:
    """Runs `headrace run ... --output directory` to its end."""
    with started(*arguments, directory=directory) as process:
        return ended(process, directory, timeout_s=timeout_s)


def ended(process: subprocess.Popen[str], directory: Path, *, timeout_s: float = PATIENCE_S) -> Ended:
    """Waits for a run's end."""
    out, err = process.communicate(timeout=timeout_s)
    return Ended(code=process.returncode, out=out, err=err, directory=directory)


@contextmanager
def started(
    *arguments: str, directory: Path | None = None, command: str = "run"
) -> Iterator[subprocess.Popen[str]]:
    """A run that goes on; killed with all its processes if the test leaves it. `directory`: of a new run."""
    output = [] if directory is None else ["--output", str(directory)]
    process = subprocess.Popen(
        [*COMMAND, command, *arguments, *output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200", OF_RUN: str(directory)},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            for child in [*psutil.Process(process.pid).children(recursive=True), process]:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.communicate()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def until(process: subprocess.Popen[str], seen: Callable[[str], bool]) -> str:
    """Reads the run's plain progress line by line until `seen`; fails when the run ends before."""
    assert process.stdout is not None
    for line in process.stdout:
        if seen(line):
            return line
    raise AssertionError(f"the run ended first: {process.stderr.read() if process.stderr else ''}")


def until_recorded(process: subprocess.Popen[str], seen: Callable[[], bool]) -> None:
    """Returns once what the run has recorded is `seen`; fails when the run ends before."""
    while not seen():
        assert process.poll() is None, f"the run ended first: {process.communicate()[1]}"
        time.sleep(0.05)


def processes(directory: Path) -> list[psutil.Process]:
    """Those that live of a run that was `started` with this directory, wherever they hang."""
    return [each for each in psutil.process_iter() if _variable(each) == str(directory)]


def _variable(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(OF_RUN)
    except psutil.Error:
        return None


def replica_pid(directory: Path, replica: str) -> int:
    """Process of the replica's newest start."""
    return int([e["pid"] for e in events(directory, "started") if e["replica"] == replica][-1])


def queue_pid(directory: Path) -> int:
    """Process of the queue's controller, as it was last started."""
    return int(events(directory, "queue_started", "queue_restarted")[-1]["pid"])
