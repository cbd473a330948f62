"""What the installed vLLM can do, asked of its classes."""

import importlib
import importlib.util
import inspect
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    version: str
    gpu: bool
    """Whether it runs on a GPU here."""
    transfers_weights: bool
    """Whether its workers have update sessions of the weight-transfer API, and take packed buckets by IPC."""
    reloads_weights: bool
    """Whether its model runner reloads from an iterator of tensors."""
    typed_prompts: bool
    """Whether prompts are given as its own engine inputs."""


def probe() -> Capabilities:
    """Imports vLLM."""
    import torch

    runner = _find("vllm.v1.worker.gpu_model_runner", "GPUModelRunner")
    packed = _find("vllm.distributed.weight_transfer.ipc_engine", "IPCWeightTransferInitInfo")
    reload = getattr(runner, "reload_weights", None)
    return Capabilities(
        version=importlib.import_module("vllm").__version__,
        gpu=torch.cuda.is_available(),
        transfers_weights=hasattr(_find("vllm.v1.worker.gpu_worker", "Worker"), "start_weight_update")
        and packed is not None
        and "packed" in inspect.signature(packed).parameters,
        reloads_weights=reload is not None and "weights_iterator" in inspect.signature(reload).parameters,
        typed_prompts=_find("vllm.inputs.engine", "tokens_input") is not None,
    )


def _find(module: str, name: str) -> Any:
    """None where this vLLM has no such module, or not the name in it."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None
