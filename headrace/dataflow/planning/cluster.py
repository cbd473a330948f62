"""What there is to run on: cores, memory and GPUs, counted without torch or ray."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CGROUP_LIMIT, SHARED = Path("/sys/fs/cgroup/memory.max"), Path("/dev/shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Resources that nodes may reserve, and the cores that one machine's threads share."""

    cpus: float
    gpus: float
    cores: int
    """Cores of the machine (of the smallest one, in a cluster of several)."""
    memory_bytes: int | None = None
    """Memory of the machine that runs everything; None: not known, or spread over several."""
    shared_bytes: int | None = None
    """Shared memory of that machine; None: as above, or it has none and files are used in its place."""
    nodes: tuple[Mapping[str, float], ...] = ()
    """Of a Ray cluster, by Ray's names of resources; (): this machine alone."""


def this_machine() -> Cluster:
    """The cores and memory this process may use and the NVIDIA GPUs it may see."""
    cores = len(os.sched_getaffinity(0))
    return Cluster(
        cpus=float(cores),
        gpus=float(_visible_gpus()),
        cores=cores,
        memory_bytes=_allowed_memory(),
        shared_bytes=_shared_memory(),
    )


def _allowed_memory() -> int:
    """The machine's memory, or less where this process's control group is held to less."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
    return there if limit == "max" else min(there, int(limit))


def _shared_memory() -> int | None:
    if not SHARED.is_dir():
        return None
    there = os.statvfs(SHARED)
    return there.f_blocks * there.f_frsize


def _visible_gpus() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip() not in ("", "-1")])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
