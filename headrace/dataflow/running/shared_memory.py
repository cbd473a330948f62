"""Folders that go with their launcher: the run's in shared memory, and a runtime's scratch.

Each is locked by its launcher while it lives, so that what a killed one left behind is found and removed by
the next. Payloads of the queue and published weights lie in shared memory.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.dataflow.running.locks import held, is_orphan

PREFIX = "headrace-"
SCRATCH = "headrace-ray-"
"""Of a cluster that is embedded."""
SCRATCH_PARENT = Path("/tmp")
"""Short, since the paths of Ray's sockets must fit into 107 bytes."""
_UNFINISHED = "."
"""A folder gets its name once it is locked: one that has it and no lock on it is an orphan."""


def root() -> Path:
    """Shared memory where the machine has it, else its folder for temporary files."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


@contextmanager
def owned_folder(parent: Path, prefix: str = PREFIX) -> Iterator[Path]:
    """A new folder of this launcher's in `parent`, removed at the end; orphans of that prefix go first."""
    sweep(parent, prefix)
    made = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{prefix}", dir=parent))
    with held(made):
        path = made.rename(made.with_name(made.name.removeprefix(_UNFINISHED)))
        try:
            yield path
        finally:
            _remove(path)


def sweep(parent: Path, prefix: str = PREFIX) -> list[Path]:
    """Removes the folders of launchers that are gone; returns those that it could remove."""
    orphans = [path for path in parent.glob(f"{prefix}*") if is_orphan(path)]
    for path in orphans:
        shutil.rmtree(path, ignore_errors=True)
    return [path for path in orphans if not path.exists()]


def _remove(path: Path) -> None:
    """Twice, since a process that is being killed may still write; what then remains is an error."""
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        shutil.rmtree(path)
