"""What keeps a function from doing more than answer: set in its process before a line of it is imported.

    memory, size of what it prints               by limits of the kernel
    files                                        by Landlock: what Python needs, and what is named
    network, processes, signals to others        by a filter of system calls

Invariant: once `confine` has returned, nothing that runs in the process can undo any of it.
"""

import os
import resource
import signal
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.services.isolation import files, privileges, system_calls
from headrace.services.options.limits import Limits

MIB = 1 << 20
PRINTED_BYTES = 64 * MIB
"""That one process may add to its log; no file that it writes may be longer."""
KEPT = ("HOME", "LANG", "PATH", "PYTHONPATH", "TZ", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
KEPT_FROM = ("LC_", "OMP_", "MKL_", "OPENBLAS_", "HEADRACE_")
NULL = Path(os.devnull)


def missing() -> str | None:
    """Why this machine cannot confine a function; None where it can."""
    return system_calls.fault() or files.fault()


def environment(own: Mapping[str, str], scratch: Path | None) -> dict[str, str]:
    """Of what a process has, what one of a confined function gets: no keys and no tokens."""
    kept = {name: value for name, value in own.items() if name in KEPT or name.startswith(KEPT_FROM)}
    folder = {} if scratch is None else {"TMPDIR": str(scratch)}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1"} | folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Of one process."""

    limits: Limits
    read: tuple[Path, ...] = ()
    """What it may read besides what Python needs."""
    hidden: tuple[Path, ...] = ()
    """Folders that it may not, wherever they lie, but for files that `read` names."""

    def plain(self, scratch: Path | None) -> dict[str, Any]:
        """As msgpack carries it; `scratch` is where it may write."""
        return {
            "limits": asdict(self.limits),
            "read": list(map(str, self.read)),
            "hidden": list(map(str, self.hidden)),
            "scratch": None if scratch is None else str(scratch),
        }


def confine(told: Mapping[str, Any]) -> None:
    """Does what `Confinement.plain` says, in a process of one thread. Raises OSError where the kernel
    refuses."""
    limits = Limits(**{**told["limits"], "reads": tuple(told["limits"]["reads"])})
    scratch = None if told["scratch"] is None else Path(told["scratch"])
    printed = os.fstat(2).st_size if stat.S_ISREG(os.fstat(2).st_mode) else 0
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _limit(resource.RLIMIT_FSIZE, printed + PRINTED_BYTES)
    _limit(resource.RLIMIT_DATA, limits.memory_mib * MIB)
    read = [*files.of_python(), *map(_absolute, (*limits.reads, *told["read"]))]
    files.bind(read, [NULL] if scratch is None else [NULL, scratch], map(Path, told["hidden"]))
    privileges.give_up()
    system_calls.refuse(network=limits.network, processes=limits.processes, writes=limits.writes)


def met(error: BaseException) -> str:
    """What an error of a confined function says besides itself: the limit that it may have met."""
    if isinstance(error, MemoryError):
        return "; the verifier's limits.memory_mib is what it may take"
    if isinstance(error, PermissionError):
        return "; the verifier's limits say what it may open, start and reach"
    return ""


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (least, least))
