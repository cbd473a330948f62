"""The device that a replica computes on: a GPU of those that it was given, else the CPU.

Invariant: a replica that reserves no GPU puts nothing on one, and one that does never falls back to the CPU.
"""

import os
from collections.abc import Callable

import numpy as np
import torch

from headrace.services.errors import ServiceError

CPU = torch.device("cpu")
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""Without it cuBLAS may add in another order from call to call; kept where the user has set it."""


def place(gpus: float, *, rank: int = 0, cards: Callable[[], int] = torch.cuda.device_count) -> torch.device:
    """Where rank `rank` of a replica that reserves `gpus` computes; `cards`: those that this process may see.

    Ray shows a process the GPUs that were reserved for it and no others; a share of one is shown as one.
    Raises ServiceError where there is none for the rank.
    """
    if not gpus:
        return CPU
    if (there := cards()) <= rank:
        raise ServiceError(
            f"rank {rank} of a replica with gpus: {gpus:g} has no GPU: torch {torch.__version__} sees "
            f"{there}; install a torch for CUDA, reserve no more than there are, or remove gpus"
        )
    return torch.device("cuda", rank)


def take(gpus: float, *, rank: int = 0) -> torch.device:
    """`place`, made this process's own: its kernels are launched there, in one order of sums."""
    device = place(gpus, rank=rank)
    if device.type == "cuda":
        for name, value in DETERMINISTIC.items():
            os.environ.setdefault(name, value)
        torch.cuda.set_device(device)
    return device


def moved(array: np.ndarray, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """An array as a tensor on `device`, of `dtype` where one is given; on the CPU a view where that does.

    To a GPU it goes from pinned memory, in the order of the kernels, so that nobody waits for it.
    """
    tensor = torch.from_numpy(array).to(dtype=dtype)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
