"""Who holds a folder: a lock file in it, locked for as long as its holder's process lives.

The kernel lets go of the lock when the process ends, however it ends, and knows nothing of process ids, which
are used again and differ between containers that share a folder.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"


class Held(Exception):
    """Another process holds the folder."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds `folder` until the block ends. Raises Held where another process does."""
    file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise Held(f"another process holds {folder}") from None
    try:
        yield
    finally:
        os.close(file)


def is_orphan(folder: Path) -> bool:
    """Whether `folder` was held once and nobody holds it now; False where this process may not look."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
