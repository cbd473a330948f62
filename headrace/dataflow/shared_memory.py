"""The run's folder in shared memory: payloads of the queue and published weights, gone when the run ends.

The folder's name holds the launcher's process id, so that what a killed launcher left behind is found and
removed by the next one.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import getpid
from pathlib import Path

import psutil

PREFIX = "headrace-"


def root() -> Path:
    """Shared memory where the machine has it, else its folder for temporary files."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


@contextmanager
def shared_folder() -> Iterator[Path]:
    sweep()
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{getpid()}-", dir=root()))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def sweep() -> list[Path]:
    """Removes the folders of launchers that are gone; returns them."""
    orphans = [path for path in root().glob(f"{PREFIX}*-*") if _orphaned(path)]
    for path in orphans:
        shutil.rmtree(path, ignore_errors=True)
    return orphans


def _orphaned(path: Path) -> bool:
    owner = path.name.removeprefix(PREFIX).partition("-")[0]
    return owner.isdigit() and not psutil.pid_exists(int(owner))
