"""Which files this process and all that it starts may read and write, by Landlock, for good.

Whatever is not named cannot be opened, run, made or removed; what was open before stays so. A process that is
bound so can look into no other that is not, by whatever way.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

CREATE, ADD, RESTRICT = 444, 445, 446
ASK_VERSION = 1
BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
EXECUTE, WRITE, READ, LIST, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
KNOWN = {1: 13, 2: 14, 3: 15, 4: 15}
"""By version, the rights that there are, as bits from the lowest on; from 5 on 16."""
OF_A_FILE = EXECUTE | WRITE | READ | TRUNCATE
TO_READ = EXECUTE | READ | LIST
SIGNALS = 1 << 1
SCOPED_FROM = 6
SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/nsswitch.conf", "/etc/mime.types"),
    *("/dev/zero", "/dev/random", "/dev/urandom"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/filesystems"),
    *("/sys/devices/system", "/sys/fs/cgroup"),
)
"""What Python and libraries of numbers read of a machine."""


def fault() -> str | None:
    """Why this machine cannot bind a process to files; None where it can."""
    version = _version()
    return None if version > 0 else "the kernel has no Landlock, which binds a process to some files"


def bind(read: Iterable[Path], write: Iterable[Path], hidden: Iterable[Path]) -> None:
    """From now on this thread, and all that comes of it, reads what is in `read` and `write` and writes what
    is in `write`; nothing that is `hidden`, unless `read` names the file. Raises OSError where the kernel
    refuses."""
    version, calls = _version(), ctypes.CDLL(None, use_errno=True)
    rights = (1 << KNOWN.get(version, 16)) - 1
    asked = struct.pack("=QQQ", rights, 0, SIGNALS if version >= SCOPED_FROM else 0)
    size = 24 if version >= SCOPED_FROM else 8
    rules = _checked(calls.syscall(CREATE, asked, ctypes.c_size_t(size), 0))
    away = [path.resolve() for path in hidden]
    try:
        for path in {each for folder in read for each in _without(folder, away)}:
            _allow(calls, rules, path, TO_READ & rights)
        for path in write:
            _allow(calls, rules, path, rights)
        _checked(calls.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(calls.syscall(RESTRICT, rules, 0))
    finally:
        os.close(rules)


def of_python() -> list[Path]:
    """Where this interpreter, what it imports and what these read of the machine lie."""
    own = (*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix)
    return [Path(path) for path in (*own, *SYSTEM) if path and Path(path).exists()]


def _without(path: Path, hidden: list[Path]) -> Iterator[Path]:
    """A file; a folder, or of one above something hidden the entries that are not above it."""
    whole = path.resolve()
    if not any(each.is_relative_to(whole) for each in hidden):
        if whole.is_file() or not any(whole.is_relative_to(each) for each in hidden):
            yield whole
        return
    for entry in whole.iterdir():
        found = entry.resolve()
        if not any(each.is_relative_to(found) or found.is_relative_to(each) for each in hidden):
            yield found


def _allow(calls: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    try:
        there = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        given = rights if path.is_dir() else rights & OF_A_FILE
        rule = struct.pack("=Qi", given, there)
        _checked(calls.syscall(ADD, rules, BENEATH, rule, 0))
    finally:
        os.close(there)


def _version() -> int:
    if not sys.platform.startswith("linux"):
        return 0
    return ctypes.CDLL(None, use_errno=True).syscall(CREATE, None, ctypes.c_size_t(0), ASK_VERSION)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not bind this process to its files")
    return result
