"""Payload that outlives a loss of power: files synced, and the folder that names them."""

import os
from collections.abc import Iterable
from pathlib import Path


def sync_files(directory: Path, names: Iterable[str]) -> None:
    """Returns once the files' bytes are on the disk."""
    for name in names:
        _sync(directory / name, os.O_RDWR)


def sync_names(directory: Path) -> None:
    """Returns once the folder's entries are: a file that was made before it is found again."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    file = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fdatasync(file)
    finally:
        os.close(file)


class Safety:
    """A client's own part of `fsync: always`, for segments that the controller cannot reach."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._named = ""

    def secure(self, segment: str) -> None:
        """Returns once what was written to the segment is safe."""
        sync_files(self._directory, [segment])
        if segment != self._named:
            sync_names(self._directory)
            self._named = segment
