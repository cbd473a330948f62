"""One run, disturbed as planned, and what is wrong with how it ended."""

import json
import os
import statistics
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from headrace.dataflow.control.client import Control
from headrace.dataflow.control.door import AskRefused
from headrace.dataflow.record.rundir import RunDirError, read_jsonl
from headrace.dataflow.running.locks import LOCK
from tests.chaos.plan import Disturbance
from tests.chaos.task import rows, trained
from tests.end_to_end.runs import started, until

MARK = "HEADRACE_CHAOS"
"""Variable by which the processes of a run are known."""
LIFT_AFTER_S = 3.0
"""That a full disk stays full, and a slow service slow."""
STALL = 3.0
"""A pause between steps this many times the usual is one that a fault made."""
PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a run went."""

    kinds: tuple[str, ...]
    """Of the faults that were injected; those that came too late are none."""
    lost_s: float
    """Between steps, beyond what steps take."""
    wrong: tuple[str, ...]
    """Of how it ended; empty where all is as it should be."""


def course(
    graph: Path, directory: Path, planned: Sequence[Disturbance], *, steps: int, due: Sequence[int] | None
) -> Course:
    """Runs to the end. `due`: uids that the undisturbed run trained on; None: this is that run."""
    with marked() as mark, started(str(graph), directory=directory) as process:
        until(process, lambda line: line.startswith("step 1/"))
        folders, done = held_by(process.pid), list[Disturbance]()
        for step, together in groupby(planned, key=lambda each: each.after_step):
            if step > 1:
                until(process, lambda line, at=f"step {step}/": line.startswith(at))
            done += [each for each in together if _injected(directory, each)]
        _, err = process.communicate(timeout=PATIENCE_S)
    left = [f"process {pid}" for pid in processes(mark)]
    left += [str(folder) for folder in folders if folder.exists()]
    ended = [] if process.returncode == 0 else [f"exit code {process.returncode}: {err[-600:]}"]
    wrong = ended or wrongs(directory, steps=steps, due=due)
    return Course(
        kinds=tuple(each.kind for each in done),
        lost_s=lost_s(directory),
        wrong=(*wrong, *(f"left behind: {each}" for each in left)),
    )


def _injected(directory: Path, each: Disturbance) -> bool:
    """Whether it could still be done; a replica that is just being started cannot be disturbed."""
    node, _, index = each.target.rpartition("/")
    route = f"/v1/services/{node}/{index}/inject" if node else "/v1/queue/inject"
    try:
        Control(directory).post(route, kind=each.kind, why="chaos")
    except (AskRefused, RunDirError):
        return False
    if each.kind in ("full-disk", "slow"):
        lift = threading.Timer(LIFT_AFTER_S, _lift, (directory, route))
        lift.daemon = True
        lift.start()
    return True


def _lift(directory: Path, route: str) -> None:
    try:
        Control(directory).post(route, kind="lift", why="chaos")
    except (AskRefused, RunDirError):
        return


def wrongs(directory: Path, *, steps: int, due: Sequence[int] | None) -> list[str]:
    """Of a run that ended well by its own account."""
    events = read_jsonl(directory / "events.jsonl").records
    (*_, table) = [each for each in events if each["event"] == "queue" and each["table"] == "prompts"]
    expected = {
        "steps": steps,
        "trained": rows(steps),
        **dict.fromkeys(("violations", "duplicated", "lost", "quarantined"), 0),
        "dropped": {},
    }
    found = [f"{name} {table[name]}, not {value}" for name, value in expected.items() if table[name] != value]
    found += [f"step {step} was taken again and came out otherwise" for step in differing(directory)]
    found += ["a new timeline began" for each in events if each["event"] == "new_timeline"]
    committed = trained(directory)
    if due is not None and committed != list(due):
        found.append(f"{len(committed)} rows committed are not the {len(due)} of the undisturbed run")
    return found


def differing(directory: Path) -> list[int]:
    """Steps that were taken more than once, and not each time to the same gradient."""
    return sorted(step for step, norms in _norms(directory).items() if len(set(norms)) > 1)


def retaken(directory: Path) -> int:
    """Steps that were taken more than once."""
    return sum(len(norms) > 1 for norms in _norms(directory).values())


def _norms(directory: Path) -> dict[int, list[float]]:
    norms: dict[int, list[float]] = defaultdict(list)
    for each in read_jsonl(directory / "metrics.jsonl").records:
        if "step" in each:
            norms[each["step"]].append(each["actor/grad_norm"])
    return norms


def lost_s(directory: Path) -> float:
    """Sum of the pauses between steps that are longer than usual, less what steps usually take."""
    times = [each["time"] for each in read_jsonl(directory / "metrics.jsonl").records if "step" in each]
    gaps = [after - before for before, after in pairwise(times)]
    usual = statistics.median(gaps) if gaps else 0.0
    return sum(gap - usual for gap in gaps if gap > STALL * usual)


@contextmanager
def marked() -> Iterator[str]:
    """Processes that are started in the block carry the mark."""
    mark = uuid.uuid4().hex
    os.environ[MARK] = mark
    try:
        yield mark
    finally:
        del os.environ[MARK]


def processes(mark: str) -> list[int]:
    """Ids of the live processes that carry a mark."""
    word = f"{MARK}={mark}".encode()
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if word in _bytes(path)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ProcessLookupError):
        return b""


def held_by(pid: int) -> set[Path]:
    """Folders that a launch holds, with its sockets and its shared memory in them."""
    opened: set[Path] = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            opened.add(path.readlink())
    held = {path.parent for path in opened if path.name == LOCK and path.parent.name.startswith("headrace-")}
    assert held, "a launch holds at least its folder in shared memory"
    return held


def restarted(graph: Path, directory: Path, *, after_step: int) -> tuple[float, dict[str, Any]]:
    """Seconds lost by a full restart of the job: its launcher is killed, and the run gone on with."""
    with started(str(graph), directory=directory) as process:
        until(process, lambda line: line.startswith(f"step {after_step}/"))
    with started(str(directory)) as process:
        process.communicate(timeout=PATIENCE_S)
    return lost_s(directory), json.loads((directory / "summary.json").read_text())
