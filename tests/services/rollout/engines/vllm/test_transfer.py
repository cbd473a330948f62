"""What is asked of vLLM's weight-transfer API, without a GPU; the vLLM that is installed takes it."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from headrace.services.errors import ServiceError
from headrace.services.rollout.engines.vllm.adapters import transfer
from headrace.services.rollout.engines.vllm.adapters.cuda_buffers import lay
from headrace.services.rollout.engines.vllm.adapters.transfer import IpcTransfer, Named
from headrace.services.rollout.engines.vllm.worker import ReloadingWorker

WEIGHTS = {
    "half": torch.arange(3, dtype=torch.bfloat16),
    "whole": torch.arange(4, dtype=torch.float32).view(2, 2),
    "turned": torch.arange(6, dtype=torch.float32).view(2, 3).t(),
}


class HostBuffers:
    """A buffer in the host's memory that stands for those of two GPUs."""

    def __init__(self, ranks: int, size: int) -> None:
        self.handles = {f"GPU-{rank}": ("args", rank) for rank in range(ranks)}
        self.memory = torch.zeros(size, dtype=torch.uint8)
        self.is_open = True

    def lay(self, bucket: Named) -> None:
        assert lay(bucket, self.memory) == sum(tensor.nbytes for _, tensor in bucket)

    def close(self) -> None:
        self.is_open = False


class Engine:
    """Ranks that read the buffers as vLLM's workers do, and hold the versions that they are told to."""

    def __init__(self, answers: Sequence[int]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.read: dict[str, torch.Tensor] = {}
        self.version = ""
        self.made: list[HostBuffers] = []

    def buffers(self, ranks: int, size: int) -> HostBuffers:
        self.made.append(HostBuffers(ranks, size))
        return self.made[-1]

    def collective_rpc(
        self, method: str, timeout: float | None = None, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> list[Any]:
        self.calls.append((method, kwargs or {}))
        if method == "update_weights":
            self._read(**kwargs["update_info"])
        return self.answers if method == "headrace_finish" else [None] * len(self.answers)

    def set_weight_version(self, weight_version: str) -> None:
        self.version = weight_version

    def _read(
        self, names: Any, dtype_names: Any, shapes: Any, ipc_handles: dict[str, Any], tensor_sizes: Any
    ) -> None:
        assert ipc_handles == {"GPU-0": ("args", 0), "GPU-1": ("args", 1)}
        parts = self.made[-1].memory[: sum(tensor_sizes)].split(tensor_sizes)
        for name, dtype, shape, part in zip(names, dtype_names, shapes, parts, strict=True):
            self.read[name] = part.view(getattr(torch, dtype)).view(shape).clone()


@pytest.mark.parametrize(("bucket_bytes", "updates"), [(1 << 20, 1), (40, 2), (1, 3)])
def test_weights_pass_through_one_buffer_in_buckets_and_come_out_equal(
    monkeypatch: pytest.MonkeyPatch, bucket_bytes: int, updates: int
) -> None:
    monkeypatch.setattr(transfer, "BUCKET_BYTES", bucket_bytes)
    engine = Engine([7, 7])
    by_ipc = IpcTransfer(ranks=2, buffers=engine.buffers)
    by_ipc.load(engine, 7, WEIGHTS)
    assert [method for method, _ in engine.calls] == [
        "init_weight_transfer_engine",
        "start_weight_update",
        *["update_weights"] * updates,
        "headrace_finish",
    ]
    assert engine.calls[0][1] == {"init_info": {"packed": True}}
    assert engine.read.keys() == WEIGHTS.keys()
    for name, tensor in WEIGHTS.items():
        assert engine.read[name].dtype == tensor.dtype and torch.equal(engine.read[name], tensor)
    assert (engine.version, engine.made[0].is_open, len(engine.made)) == ("7", False, 1)
    by_ipc.load(engine, 7, WEIGHTS)
    assert [method for method, _ in engine.calls].count("init_weight_transfer_engine") == 1


def test_each_rank_has_to_say_the_version_before_it_is_served() -> None:
    engine = Engine([7, 6])
    with pytest.raises(ServiceError, match=r"hold the versions \[7, 6\] after a load of 7"):
        IpcTransfer(ranks=2, buffers=engine.buffers).load(engine, 7, WEIGHTS)
    assert (engine.version, engine.made[0].is_open) == ("", False)


def test_a_worker_says_its_version_once_its_session_has_ended() -> None:
    ended: list[bool] = []
    worker: Any = ReloadingWorker()
    worker.finish_weight_update = lambda: ended.append(True)
    assert (worker.headrace_finish(4), ended) == (4, [True])


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_the_installed_vllm_takes_every_call_as_it_is_made() -> None:
    pytest.importorskip("vllm")
    own = importlib.import_module("vllm.distributed.weight_transfer.ipc_engine")
    worker = importlib.import_module("vllm.v1.worker.gpu_worker").Worker
    llm = importlib.import_module("vllm.v1.engine.llm_engine").LLMEngine
    engine = Engine([7, 7])
    IpcTransfer(ranks=2, buffers=engine.buffers).load(engine, 7, WEIGHTS)
    for method, arguments in engine.calls:
        if method != "headrace_finish":
            bind(getattr(worker, method), **arguments)
    told = dict(engine.calls)
    assert own.IPCWeightTransferInitInfo(**told["init_weight_transfer_engine"]["init_info"]).packed is True
    info = own.IPCWeightTransferUpdateInfo(**told["update_weights"]["update_info"])
    assert info.names == ["whole", "turned", "half"]
    bind(llm.collective_rpc, "update_weights", kwargs={})
    bind(llm.collective_rpc, "headrace_finish", args=(7,))
    bind(llm.set_weight_version, "7")
    bind(worker.finish_weight_update)
    unpack = importlib.import_module("vllm.distributed.weight_transfer.packed_tensor").unpack_tensor
    dtypes = [getattr(torch, name) for name in info.dtype_names]
    memory = engine.made[0].memory
    for name, tensor in unpack(memory, info.names, info.shapes, dtypes, info.tensor_sizes):
        assert torch.equal(tensor, WEIGHTS[name])
    assert set(IpcTransfer(ranks=2).engine_fields()) <= set(
        inspect.signature(importlib.import_module("vllm.engine.arg_utils").EngineArgs).parameters
    )


def bind(method: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    """Raises TypeError where a method of a class does not take these."""
    inspect.signature(method).bind(None, *arguments, **named)
