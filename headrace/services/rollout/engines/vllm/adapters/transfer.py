"""vLLM's weight-transfer API by CUDA IPC: the way on GPUs.

Weights pass in buckets: each is copied to the GPUs of the ranks, whose workers, processes of their own, read
it there by its handle and keep their part. No GPU holds more than a bucket beside its own.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.services.rollout.engines.vllm.adapters.base import confirm

BUCKET_BYTES = 256 << 20

Named = Sequence[tuple[str, Any]]
"""Tensors by name."""


class IpcTransfer:
    """A session of the API for each load; its version is set when all of it is in."""

    def __init__(self, *, ranks: int) -> None:
        self._ranks = ranks
        self._greeted = False

    def engine_fields(self) -> dict[str, Any]:
        """A handle cannot be opened in the process that made it: hence workers apart, even if it is one."""
        config = importlib.import_module("vllm.config.weight_transfer").WeightTransferConfig
        return {"weight_transfer_config": config(backend="ipc"), "distributed_executor_backend": "mp"}

    def load(self, engine: Any, version: int, weights: Mapping[str, Any]) -> None:
        if not self._greeted:
            engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {"packed": False}})
            self._greeted = True
        engine.collective_rpc("start_weight_update")
        for bucket in buckets(weights, BUCKET_BYTES):
            self._send(engine, bucket)
        engine.collective_rpc("finish_weight_update")
        engine.set_weight_version(str(version))
        confirm([engine.get_weight_version()], str(version))

    def _send(self, engine: Any, bucket: Named) -> None:
        """The copies live until every worker has answered."""
        import torch
        from torch.multiprocessing.reductions import reduce_tensor

        gpus = {str(torch.cuda.get_device_properties(i).uuid): i for i in range(self._ranks)}
        copies = [
            {uuid: tensor.to(f"cuda:{gpu}").contiguous() for uuid, gpu in gpus.items()}
            for _, tensor in bucket
        ]
        for gpu in gpus.values():
            torch.cuda.synchronize(gpu)
        info = {
            "names": [name for name, _ in bucket],
            "dtype_names": [str(tensor.dtype).removeprefix("torch.") for _, tensor in bucket],
            "shapes": [list(tensor.shape) for _, tensor in bucket],
            "ipc_handles": [{uuid: reduce_tensor(t)[1] for uuid, t in copy.items()} for copy in copies],
        }
        engine.collective_rpc("update_weights", kwargs={"update_info": info})


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
