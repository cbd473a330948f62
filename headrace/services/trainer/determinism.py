"""Sums of floats in one order, whatever the threads do: a step on the same rows gives the same bits."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils import deterministic as memory

FILLS = "fill_uninitialized_memory"


@contextmanager
def deterministic() -> Iterator[None]:
    """Within it torch takes its deterministic kernels; where it has none it warns and goes on.

    On the CPU that concerns the backward of indexing, which else adds in the order of its threads.
    """
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    fills = getattr(memory, FILLS)
    setattr(memory, FILLS, False)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        setattr(memory, FILLS, fills)
