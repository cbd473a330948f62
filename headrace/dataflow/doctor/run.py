"""How one run is: its launch, its replicas, its newest checkpoint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.dataflow.control.client import Control
from headrace.dataflow.control.door import FILE, AskRefused, Door
from headrace.dataflow.doctor.findings import Finding, bad, poor, well
from headrace.dataflow.record.rundir import RunDir, RunDirError, read_jsonl
from headrace.dataflow.record.telemetry import RUN_ENDED, RUN_STARTED
from headrace.services.trainer.checkpoint import newest


def looked_into(directory: Path) -> Iterator[Finding]:
    """Raises RunDirError where it is no run's directory."""
    run = RunDir.open(directory)
    if Door.is_of_live(directory):
        yield from _live(directory)
    else:
        yield _ended(directory, run)
        if (run.path / FILE).exists():
            says = f"{FILE} is there, and no launch goes on"
            yield poor("control API", says, f"rm {directory / FILE}")
    yield from _checkpoints(run)


def _live(directory: Path) -> Iterator[Finding]:
    try:
        found = Control(directory).get("/v1/run")
    except (RunDirError, AskRefused) as error:
        yield bad("launch", f"it goes on, and is not to be asked: {error}", f"see {directory / 'logs'}")
        return
    if (paused := found["paused"]) is not None:
        yield poor("launch", f"paused by {paused['who']}: {paused['why']}", f"headrace resume {directory}")
    else:
        yield well("launch", "it goes on, and answers")
    ill = [each for each in found["replicas"] if each["state"] == "failed" or each["restarts"]]
    for each in ill:
        yield poor(each["replica"], _told(each), f"headrace logs {each['replica']} --run {directory}")
    if not ill:
        yield well("replicas", f"{len(found['replicas'])}, none has failed")


def _told(standing: dict[str, Any]) -> str:
    return f"{standing['state']}, restarted {standing['restarts']} times, last: {standing['error']}"


def _ended(directory: Path, run: RunDir) -> Finding:
    """By the last launch's own word; what an earlier one said of itself is past."""
    marks = [e for e in read_jsonl(run.events).records if e["event"] in (RUN_STARTED, RUN_ENDED)]
    if not marks or marks[-1]["event"] == RUN_STARTED:
        says = "its launcher was killed before it could end the run"
        return bad("launch", says, f"headrace resume {directory}")
    end = marks[-1]
    if end["status"] == "completed":
        return well("launch", "it has completed")
    says = f"{end['status']}{': ' * bool(end['cause'])}{end['cause']}"
    health = bad if end["status"] == "failed" else poor
    return health("launch", says, f"headrace resume {directory}")


def _checkpoints(run: RunDir) -> Iterator[Finding]:
    """The newest of each policy; every file of it is hashed."""
    alone = list(run.checkpoints.glob("step-*"))
    for folder in [run.checkpoints] if alone else sorted(run.checkpoints.glob("*")):
        found = newest(folder)
        for skipped in found.skipped:
            says = f"{skipped.path} is not whole: {skipped.reason}"
            yield poor("checkpoint", says, f"rm -r {skipped.path}; an older one is gone on from")
        if found.checkpoint is not None:
            yield well("checkpoint", f"{found.checkpoint.path} is whole")
