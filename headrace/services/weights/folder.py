"""The files of one policy: versions that may be read, and spares whose memory is written anew.

    spare ─► written under a lock of its own ─► renamed to its version ─► retired: a spare again

A new page of shared memory costs several times what a copy into it does, so that files are used again. One
process writes at a time. Invariant: a version's file is complete or absent, and no file is written to while
somebody has it mapped: a mapping holds a shared lock for as long as it is there, whoever dies.
"""

import fcntl
import mmap
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np

from headrace.services.errors import WeightsError
from headrace.transferqueue.payload.mapping import populate

VERSION, SPARE = ".safetensors", ".spare"
_POPULATE_WRITE = 23
"""Linux's MADV_POPULATE_WRITE, which `mmap` has no name for; unknown before 5.14, where pages fault in."""


class Gone(Exception):
    """The version is not there, or no more."""


class Folder:
    """Of one policy; what was written or read stays mapped, for the next time that its memory is used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[int, mmap.mmap] = {}
        self._read: dict[int, mmap.mmap] = {}
        """By inode."""

    def versions(self) -> list[int]:
        return sorted(int(path.stem) for path in self._path.glob(f"*{VERSION}"))

    def path(self, version: int) -> Path:
        return self._path / f"{version:08d}{VERSION}"

    @contextmanager
    def open(self, version: int) -> Iterator[int]:
        """A descriptor of a version, under a shared lock. Raises Gone."""
        path = self.path(version)
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Gone from None
        try:
            if not _locked(file, fcntl.LOCK_SH) or not _is_named(file, path):
                raise Gone
            yield file
        finally:
            os.close(file)

    def view(self, file: int) -> np.ndarray:
        """uint8 [size] of a file that is open; what is written to it changes no file.

        The file stays locked until the last view of these bytes is gone.
        """
        inode = os.fstat(file).st_ino
        self._forget_removed()
        if inode not in self._read:
            unlocked = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                mapping = self._read[inode] = mmap.mmap(unlocked, 0, access=mmap.ACCESS_COPY)
            finally:
                os.close(unlocked)
            populate(mapping, 0, len(mapping))
        data = np.frombuffer(self._read[inode], np.uint8)
        weakref.finalize(data, os.close, os.dup(file))
        return data

    def renew(self, file: int) -> np.ndarray:
        """As `view`, of bytes that nobody here has written to."""
        self._read.pop(os.fstat(file).st_ino, None)
        return self.view(file)

    @contextmanager
    def alone(self, *, wait: bool = False) -> Iterator[None]:
        """Raises WeightsError where another process writes to the folder, or waits for it to end."""
        self._path.mkdir(parents=True, exist_ok=True)
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if wait:
                fcntl.flock(folder, fcntl.LOCK_EX)
            elif not _locked(folder, fcntl.LOCK_EX):
                raise WeightsError(
                    f"another process writes weights to {self._path}; a policy's folder has one writer at a "
                    "time: give each its own"
                )
            yield
        finally:
            os.close(folder)

    @contextmanager
    def writing(self, size: int) -> Iterator["Writing"]:
        """A file of `size` bytes to be written and published; else it is left as a spare. Within `alone`.

        Raises WeightsError where there is no room for it.
        """
        file, path = self._spare(size) or self._new(size)
        try:
            yield Writing(self, file, path, self._array(file, size))
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def retire(self, version: int) -> None:
        """Takes a version from its readers; its file may be written again once they have let go of it."""
        with suppress(FileNotFoundError):
            self.path(version).rename(self._new_spare())

    def put(self, file: Path, version: int) -> None:
        """Has a file be a version, at once in the place of another, which is retired."""
        with suppress(FileNotFoundError):
            self._new_spare().hardlink_to(self.path(version))
        file.rename(self.path(version))

    def _new_spare(self) -> Path:
        return self._path / f"{uuid4().hex}{SPARE}"

    def _spare(self, size: int) -> tuple[int, Path] | None:
        """One that nobody looks at, locked. Those that somebody looks at stay, for when he has let go; more
        that are free, and what is of no use, are removed."""
        taken: tuple[int, Path] | None = None
        for path in self._path.glob(f"*{SPARE}"):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            status = os.fstat(file)
            fits = status.st_nlink == 1 and status.st_size == size
            is_free = fits and _locked(file, fcntl.LOCK_EX)
            if taken is None and is_free:
                taken = file, path
                continue
            if is_free or not fits:
                path.unlink(missing_ok=True)
            os.close(file)
        return taken

    def _new(self, size: int) -> tuple[int, Path]:
        path = self._new_spare()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            os.close(file)
            path.unlink()
            raise WeightsError(
                f"no room for weights of {size} bytes in {self._path}: {error.strerror}; three versions are "
                "held there, and those that readers have not left yet: give it more memory (a container's "
                "--shm-size), or use a smaller dtype"
            ) from error
        return file, path

    def _array(self, file: int, size: int) -> np.ndarray:
        inode = os.fstat(file).st_ino
        self._forget_removed()
        if inode not in self._written:
            mapping = self._written[inode] = mmap.mmap(file, size)
            with suppress(OSError):
                mapping.madvise(_POPULATE_WRITE)
        return np.frombuffer(self._written[inode], np.uint8)

    def _forget_removed(self) -> None:
        """Lets go of files that have no name here any more, so that their memory does."""
        named = {entry.inode() for entry in os.scandir(self._path)}
        for mappings in (self._written, self._read):
            for inode in mappings.keys() - named:
                del mappings[inode]


class Writing:
    """A file that nobody knows of yet."""

    def __init__(self, folder: Folder, file: int, path: Path, array: np.ndarray) -> None:
        self.array = array
        """uint8 [size], shared with the file; what an earlier version left in it is still there."""
        self._folder = folder
        self._file = file
        self._path = path

    def publish(self, version: int) -> None:
        """From here on it may be read as this version, in the place of any other of that number; no moment is
        without one of the two."""
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._folder.put(self._path, version)


def _locked(file: int, kind: int) -> bool:
    """Whether the lock was to be had at once."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(file: int, path: Path) -> bool:
    """Whether the path still leads to the file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False
