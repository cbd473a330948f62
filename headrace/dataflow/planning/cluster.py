"""What there is to run on: cores and GPUs, counted without torch or ray."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Resources that nodes may reserve, and the cores that one machine's threads share."""

    cpus: float
    gpus: float
    cores: int
    """Cores of the machine (of the smallest one, in a cluster of several)."""


def this_machine() -> Cluster:
    """The cores this process may use and the NVIDIA GPUs it may see."""
    cores = len(os.sched_getaffinity(0))
    return Cluster(cpus=float(cores), gpus=float(_visible_gpus()), cores=cores)


def _visible_gpus() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip() not in ("", "-1")])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
