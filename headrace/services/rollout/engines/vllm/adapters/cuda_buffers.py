"""A buffer on each of the first GPUs of this process, which other processes open by CUDA IPC.

What is laid passes through one buffer in pinned memory, from which all of them are filled beside each other.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor


class CudaBuffers:
    """Of one load: a handle counts one opening by one process, so that each load makes its own."""

    def __init__(self, ranks: int, size: int) -> None:
        self._buffers = [torch.empty(size, dtype=torch.uint8, device=f"cuda:{gpu}") for gpu in range(ranks)]
        self._staged = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        self.handles = {
            str(torch.cuda.get_device_properties(buffer.device).uuid): reduce_tensor(buffer)[1]
            for buffer in self._buffers
        }

    def lay(self, bucket: Sequence[tuple[str, Any]]) -> None:
        """See `transfer.Buffers`."""
        size = lay(bucket, self._staged)
        for buffer in self._buffers:
            buffer[:size].copy_(self._staged[:size], non_blocking=True)
        for buffer in self._buffers:
            torch.cuda.synchronize(buffer.device)

    def close(self) -> None:
        """See `transfer.Buffers`."""
        self._buffers = []
        torch.cuda.ipc_collect()


def lay(bucket: Sequence[tuple[str, torch.Tensor]], buffer: torch.Tensor) -> int:
    """The bytes of the tensors, one behind the other, into `buffer`, uint8 [size]; how many they are."""
    start = 0
    for _, tensor in bucket:
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        buffer[start : start + len(raw)].copy_(raw)
        start += len(raw)
    return start
