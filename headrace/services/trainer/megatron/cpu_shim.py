"""Has megatron-core compute on the CPU, where it asks torch for a GPU at every turn.

Only names within megatron's own modules are replaced, by an explicit call: torch itself, and whoever else
uses it in this process, stay as they are.
"""

import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import torch

CPU = torch.device("cpu")
RANDOM = "megatron.core.tensor_parallel.random"
FACTORIES = ("arange", "empty", "full", "ones", "tensor", "zeros")
"""Functions of torch that megatron calls with the device of the GPU."""


class CpuDevice(ModuleType):
    """`torch.cuda` as megatron sees it: one device, which is the CPU and has nothing to wait for."""

    def current_device(self) -> torch.device:
        return CPU

    def synchronize(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cuda, name)


class CpuTorch(ModuleType):
    """`torch` as megatron sees it: what is asked for on a GPU is made on the CPU."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.cuda = CpuDevice("torch.cuda")
        for name in FACTORIES:
            setattr(self, name, _on_cpu(getattr(torch, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def install() -> None:
    """Replaces `torch` in the modules of megatron-core that are loaded, and what its layers that are computed
    again ask of the GPU's random numbers; again is the same.

    For a process without a GPU, after everything that is needed of megatron-core was imported.
    """
    seen = CpuTorch()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "megatron" and getattr(module, "torch", None) is torch:
            vars(module)["torch"] = seen
    vars(sys.modules[RANDOM]).update(_get_cuda_rng_state=_no_state, _set_cuda_rng_state=_keep_state)


def _no_state(*_: Any, **__: Any) -> torch.Tensor:
    """Of the random numbers of a GPU that is not there."""
    return torch.empty(0, dtype=torch.uint8)


def _keep_state(*_: Any, **__: Any) -> None:
    return None


def _on_cpu(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @wraps(make)
    def made(*arguments: Any, device: Any = None, **options: Any) -> torch.Tensor:
        named = torch.device(device) if isinstance(device, str) else device
        return make(
            *arguments, device=CPU if named is not None and named.type == "cuda" else named, **options
        )

    return made
