"""What runs that were killed have left behind, with the commands that remove it; nothing is removed here."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from headrace.dataflow.doctor.findings import Finding, poor, well
from headrace.dataflow.planning.memory import in_words
from headrace.dataflow.running.locks import is_orphan
from headrace.dataflow.running.shared_memory import PREFIX, SCRATCH, SCRATCH_PARENT, root
from headrace.services.room import size_of


def left_behind() -> Iterator[Finding]:
    """Folders in shared memory and of Ray, and processes that use them."""
    yield folders("left in shared memory", orphans(root(), PREFIX))
    scratch = orphans(SCRATCH_PARENT, SCRATCH)
    yield folders("left by Ray", scratch)
    yield processes(scratch)


def orphans(parent: Path, prefix: str) -> list[Path]:
    """Folders whose launcher is gone."""
    return sorted(path for path in parent.glob(f"{prefix}*") if is_orphan(path))


def folders(subject: str, found: Sequence[Path]) -> Finding:
    if not found:
        return well(subject, "nothing")
    size = in_words(sum(map(size_of, found)))
    names = " ".join(shlex.quote(str(path)) for path in found)
    return poor(subject, f"{len(found)} folders of dead runs, {size}", f"rm -r {names}")


def processes(scratch: Sequence[Path]) -> Finding:
    """Those that name a folder of a dead run in their command line."""
    names = [str(path) for path in scratch]
    found = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(name in part for part in process.info["cmdline"] or () for name in names)
    ]
    if not found:
        return well("processes", "none of a dead run")
    return poor("processes", f"{len(found)} of dead runs", f"kill {' '.join(map(str, sorted(found)))}")
