"""vLLM's weight-transfer API by CUDA IPC: the way on GPUs.

Weights pass in buckets through one buffer on the GPU of each rank; its worker, a process of its own, opens
the buffer by its handle and copies what is there. Invariant: a bucket is laid over the one before only after
all ranks have copied that: vLLM keeps what it was given until the whole of a layer is there.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from headrace.services.rollout.engines.vllm.adapters.base import confirm
from headrace.services.rollout.engines.vllm.adapters.reload import EXTENSION

BUCKET_BYTES = 256 << 20

Named = Sequence[tuple[str, Any]]
"""Tensors by name."""


class Buffers(Protocol):
    """Memory on the GPU of each rank."""

    @property
    def handles(self) -> Mapping[str, Any]:
        """By the UUID of a GPU what another process opens its buffer with."""
        ...

    def lay(self, bucket: Named) -> None:
        """One tensor behind the other; over once all of it is there."""
        ...

    def close(self) -> None:
        """Gives the memory up, once no worker has it open any more."""
        ...


class IpcTransfer:
    """A session of the API for each load, which every rank ends by saying the version that it holds."""

    def __init__(self, *, ranks: int, buffers: Callable[[int, int], Buffers] | None = None) -> None:
        """`buffers`: made of the number of ranks and the bytes of each; None: on this machine's GPUs."""
        self._ranks = ranks
        self._buffers = buffers or _on_gpus
        self._greeted = False

    def engine_fields(self) -> dict[str, Any]:
        """A handle cannot be opened in the process that made it: hence workers apart, even if it is one."""
        config = importlib.import_module("vllm.config.weight_transfer").WeightTransferConfig
        return {
            "weight_transfer_config": config(backend="ipc"),
            "distributed_executor_backend": "mp",
            "worker_extension_cls": EXTENSION,
        }

    def load(self, engine: Any, version: int, weights: Mapping[str, Any]) -> None:
        if not self._greeted:
            engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {"packed": True}})
            self._greeted = True
        largest = max(tensor.nbytes for tensor in weights.values())
        size = min(sum(tensor.nbytes for tensor in weights.values()), max(BUCKET_BYTES, largest))
        buffers = self._buffers(self._ranks, size)
        try:
            engine.collective_rpc("start_weight_update")
            for bucket in buckets(aligned(weights), size):
                buffers.lay(bucket)
                info = update_info(bucket, buffers.handles)
                engine.collective_rpc("update_weights", kwargs={"update_info": info})
            confirm(engine.collective_rpc("headrace_finish", args=(version,)), version)
            engine.set_weight_version(str(version))
        finally:
            buffers.close()


def update_info(bucket: Named, handles: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM is told of a bucket that was laid into buffers."""
    return {
        "names": [name for name, _ in bucket],
        "dtype_names": [str(tensor.dtype).removeprefix("torch.") for _, tensor in bucket],
        "shapes": [list(tensor.shape) for _, tensor in bucket],
        "ipc_handles": dict(handles),
        "tensor_sizes": [tensor.nbytes for _, tensor in bucket],
    }


def aligned(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Widest elements first, so that each begins at a multiple of its own width; else in their order."""
    return dict(sorted(weights.items(), key=lambda item: -item[1].itemsize))


def buckets(weights: Mapping[str, Any], most: int) -> Iterator[Named]:
    """Tensors in order, as many as fit into `most` bytes at a time; one that does not fit goes alone."""
    held: list[tuple[str, Any]] = []
    size = 0
    for name, tensor in weights.items():
        if held and size + tensor.nbytes > most:
            yield held
            held, size = [], 0
        held.append((name, tensor))
        size += tensor.nbytes
    if held:
        yield held


def _on_gpus(ranks: int, size: int) -> Buffers:
    from headrace.services.rollout.engines.vllm.adapters.cuda_buffers import CudaBuffers

    return CudaBuffers(ranks, size)
