"""A filter of system calls for this process and all that it starts, which none of them can lift again.

Refused: sockets, further processes, signals to others, limits and priorities of others, memory that no limit
counts, what Landlock leaves free of files (modes, owners, times, attributes), and the ways around these. It
is a seccomp program, written here as the kernel takes it: 8 bytes an instruction.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence

PR_SET_SECCOMP, PR_GET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 21, 38
SECCOMP_MODE_FILTER = 2
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERROR, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER_AT, MACHINE_AT, ARGUMENT_AT, ARGUMENT = 0, 4, 16, 8
CLONE_THREAD = 0x00010000
OTHER_TABLE = 0x40000000
"""From here on numbers of x86-64 are those of its second table, which would name the same calls anew."""

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKETS: Mapping[str, Mapping[str, int]] = {"x86_64": {"socket": 41}, "aarch64": {"socket": 198}}
PROCESSES: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322},
    "aarch64": {"execve": 221, "execveat": 281},
}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435
AROUND: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "ptrace": 101,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "unshare": 272,
        "setns": 308,
        "mount": 165,
        "bpf": 321,
        "keyctl": 250,
        "perf_event_open": 298,
        "userfaultfd": 323,
    },
    "aarch64": {
        "ptrace": 117,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "unshare": 97,
        "setns": 268,
        "mount": 40,
        "bpf": 280,
        "keyctl": 219,
        "perf_event_open": 241,
        "userfaultfd": 282,
    },
}
AROUND_EVERYWHERE = {"io_uring_setup": 425, "pidfd_open": 434, "pidfd_send_signal": 424, "pidfd_getfd": 438}
OF_ITSELF: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"kill": 62, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297},
    "aarch64": {"kill": 129, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240},
}
"""Allowed where their first argument is the process itself."""
OF_TURNS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        "sched_setaffinity": 203,
        "sched_setscheduler": 144,
        "sched_setparam": 142,
        "sched_setattr": 314,
    },
    "aarch64": {
        "sched_setaffinity": 122,
        "sched_setscheduler": 119,
        "sched_setparam": 118,
        "sched_setattr": 274,
    },
}
"""Likewise, and of the thread that calls, which is 0."""
PRIORITY: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"setpriority": 141, "ioprio_set": 251},
    "aarch64": {"setpriority": 140, "ioprio_set": 30},
}
UNCOUNTED: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"memfd_create": 319, "shmget": 29},
    "aarch64": {"memfd_create": 279, "shmget": 194},
}
"""Memory that RLIMIT_DATA does not have."""
UNCOUNTED_EVERYWHERE = {"memfd_secret": 447}
MAP = {"x86_64": 9, "aarch64": 222}
MAP_FLAGS_AT, MAP_SHARED, MAP_ANONYMOUS, MAP_GROWSDOWN = 3, 0x01, 0x20, 0x0100
FCNTL = {"x86_64": 72, "aarch64": 25}
IOCTL = {"x86_64": 16, "aarch64": 29}
COMMAND_AT = 1
OWNERS = {"F_SETSIG": 10, "F_SETOWN": 8, "F_SETOWN_EX": 15}, {"FIOSETOWN": 0x8901, "SIOCSPGRP": 0x8902}
"""Commands of fcntl and ioctl by which a file signals another process."""
MARKS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {
        **{"chmod": 90, "fchmod": 91, "fchmodat": 268},
        **{"chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260},
        **{"setxattr": 188, "lsetxattr": 189, "fsetxattr": 190},
        **{"removexattr": 197, "lremovexattr": 198, "fremovexattr": 199},
        **{"utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "truncate": 76},
    },
    "aarch64": {
        **{"fchmod": 52, "fchmodat": 53, "fchown": 55, "fchownat": 54},
        **{"setxattr": 5, "lsetxattr": 6, "fsetxattr": 7},
        **{"removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "utimensat": 88, "truncate": 45},
    },
}
"""Of files, which Landlock lets be done wherever they lie; `truncate` before its third version."""
MARKS_EVERYWHERE = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469}
LIMITS = {"x86_64": 302, "aarch64": 261}
ANY_THREAD = {"x86_64": 200, "aarch64": 130}


def fault() -> str | None:
    """Why this machine has no such filter; None where it has."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return f"{platform.system()} on {platform.machine()} has no filter of system calls that is known here"
    if ctypes.CDLL(None, use_errno=True).prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0:
        return "the kernel was built without seccomp"
    return None


def refuse(*, network: bool, processes: bool, writes: bool) -> None:
    """Refuses with EPERM, in this thread and all that come of it, what is not allowed by these.

    Raises OSError where the kernel does not take the filter.
    """
    allowed = {"network": network, "processes": processes, "writes": writes}
    code = b"".join(_program(platform.machine(), os.getpid(), **allowed))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    calls = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0),
    ):
        if calls.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the kernel does not take a filter of system calls")


def _program(machine: str, pid: int, *, network: bool, processes: bool, writes: bool) -> list[bytes]:
    made = [
        _step(LOAD, MACHINE_AT),
        *_unless(EQUAL, MACHINES[machine], KILL),
        _step(LOAD, NUMBER_AT),
        *_where(AT_LEAST, OTHER_TABLE, ERROR | errno.EPERM),
    ]
    if not processes:
        made += _where(EQUAL, CLONE3, ERROR | errno.ENOSYS)
        made += _allowed(CLONE[machine], [(ANY_BIT, CLONE_THREAD)])
        for number in OF_ITSELF[machine].values():
            made += _allowed(number, [(EQUAL, pid)])
        for number, commands in zip((FCNTL[machine], IOCTL[machine]), OWNERS, strict=True):
            told = [(EQUAL, command) for command in commands.values()]
            made += _argument(number, told, met=ERROR | errno.EPERM, unmet=ALLOW, at=COMMAND_AT)
    for number in (LIMITS[machine], *OF_TURNS[machine].values()):
        made += _allowed(number, [(EQUAL, 0), (EQUAL, pid)])
    made += _counted(MAP[machine])
    for number in _refused(machine, network=network, processes=processes, writes=writes):
        made += _where(EQUAL, number, ERROR | errno.EPERM)
    return [*made, _step(RETURN, ALLOW)]


def _refused(machine: str, *, network: bool, processes: bool, writes: bool) -> list[int]:
    """Whatever their arguments are."""
    refused = [*AROUND[machine].values(), *AROUND_EVERYWHERE.values(), *PRIORITY[machine].values()]
    refused += [*UNCOUNTED[machine].values(), *UNCOUNTED_EVERYWHERE.values()]
    if not network:
        refused += SOCKETS[machine].values()
    if not processes:
        refused += [*PROCESSES[machine].values(), ANY_THREAD[machine]]
    if not writes:
        refused += [*MARKS[machine].values(), *MARKS_EVERYWHERE.values()]
    return refused


def _allowed(number: int, tests: Sequence[tuple[int, int]]) -> list[bytes]:
    """The call of that number is allowed where one of the tests holds of its first argument."""
    return _argument(number, tests, met=ALLOW, unmet=ERROR | errno.EPERM)


def _argument(
    number: int, tests: Sequence[tuple[int, int]], *, met: int, unmet: int, at: int = 0
) -> list[bytes]:
    """What the call of that number gets where one of the tests holds of its argument, and where none does."""
    steps = [_step(compare, value, then=len(tests) - place) for place, (compare, value) in enumerate(tests)]
    block = [
        _step(LOAD, ARGUMENT_AT + ARGUMENT * at),
        *steps,
        _step(RETURN, unmet),
        _step(RETURN, met),
    ]
    return [_step(EQUAL, number, otherwise=len(block)), *block]


def _counted(number: int) -> list[bytes]:
    """No shared memory without a file is mapped and no further stack: pages of these count nowhere."""
    block = [
        _step(LOAD, ARGUMENT_AT + ARGUMENT * MAP_FLAGS_AT),
        _step(ANY_BIT, MAP_GROWSDOWN, then=2),
        _step(ANY_BIT, MAP_ANONYMOUS, otherwise=2),
        _step(ANY_BIT, MAP_SHARED, otherwise=1),
        _step(RETURN, ERROR | errno.ENOMEM),
        _step(RETURN, ALLOW),
    ]
    return [_step(EQUAL, number, otherwise=len(block)), *block]


def _where(compare: int, value: int, result: int) -> list[bytes]:
    return [_step(compare, value, otherwise=1), _step(RETURN, result)]


def _unless(compare: int, value: int, result: int) -> list[bytes]:
    return [_step(compare, value, then=1), _step(RETURN, result)]


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
