"""A filter of system calls for this process and all that it starts, which none of them can lift again.

Refused: sockets, further processes, signals to others and limits of others, and the ways around these. It is
a seccomp program, written here as the kernel takes it: 8 bytes an instruction.
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
NUMBER_AT, MACHINE_AT, ARGUMENT_AT = 0, 4, 16
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
LIMITS = {"x86_64": 302, "aarch64": 261}
ANY_THREAD = {"x86_64": 200, "aarch64": 130}


def fault() -> str | None:
    """Why this machine has no such filter; None where it has."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return f"{platform.system()} on {platform.machine()} has no filter of system calls that is known here"
    if ctypes.CDLL(None, use_errno=True).prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0:
        return "the kernel was built without seccomp"
    return None


def refuse(*, network: bool, processes: bool) -> None:
    """Refuses with EPERM, in this thread and all that come of it, what is not allowed by these.

    Raises OSError where the kernel does not take the filter.
    """
    code = b"".join(_program(platform.machine(), os.getpid(), network=network, processes=processes))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    calls = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0),
    ):
        if calls.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the kernel does not take a filter of system calls")


def _program(machine: str, pid: int, *, network: bool, processes: bool) -> list[bytes]:
    refused = [*AROUND[machine].values(), *AROUND_EVERYWHERE.values()]
    if not network:
        refused += SOCKETS[machine].values()
    made = [
        _step(LOAD, MACHINE_AT),
        *_unless(EQUAL, MACHINES[machine], KILL),
        _step(LOAD, NUMBER_AT),
        *_where(AT_LEAST, OTHER_TABLE, ERROR | errno.EPERM),
    ]
    if not processes:
        refused += [*PROCESSES[machine].values(), ANY_THREAD[machine]]
        made += _where(EQUAL, CLONE3, ERROR | errno.ENOSYS)
        made += _argument(CLONE[machine], [(ANY_BIT, CLONE_THREAD)])
        for number in OF_ITSELF[machine].values():
            made += _argument(number, [(EQUAL, pid)])
    made += _argument(LIMITS[machine], [(EQUAL, 0), (EQUAL, pid)])
    for number in refused:
        made += _where(EQUAL, number, ERROR | errno.EPERM)
    return [*made, _step(RETURN, ALLOW)]


def _argument(number: int, allowed: Sequence[tuple[int, int]]) -> list[bytes]:
    """The call of that number is allowed where one of the comparisons holds of its first argument."""
    tests = [_step(compare, value, then=len(allowed) - at) for at, (compare, value) in enumerate(allowed)]
    block = [
        _step(LOAD, ARGUMENT_AT),
        *tests,
        _step(RETURN, ERROR | errno.EPERM),
        _step(RETURN, ALLOW),
    ]
    return [_step(EQUAL, number, otherwise=len(block)), *block]


def _where(compare: int, value: int, result: int) -> list[bytes]:
    return [_step(compare, value, otherwise=1), _step(RETURN, result)]


def _unless(compare: int, value: int, result: int) -> list[bytes]:
    return [_step(compare, value, then=1), _step(RETURN, result)]


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
