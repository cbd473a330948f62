"""Tensors as bytes and back, without a copy where they lie in one piece on the CPU."""

from typing import TYPE_CHECKING

import numpy as np

from headrace.services.errors import WeightsError
from headrace.services.weights.layout import ALIGNED_BYTES, Form, Placed

if TYPE_CHECKING:
    import torch

TORCH_NAMES = {
    "F64": "float64", "I64": "int64", "U64": "uint64", "F32": "float32", "I32": "int32", "U32": "uint32",
    "F16": "float16", "BF16": "bfloat16", "I16": "int16", "U16": "uint16", "I8": "int8", "U8": "uint8",
    "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
_NAMES = {torch_name: name for name, torch_name in TORCH_NAMES.items()}


def form(tensor: "torch.Tensor") -> Form:
    """Raises WeightsError for a type that a file of weights cannot hold."""
    name = _NAMES.get(str(tensor.dtype).removeprefix("torch."))
    if name is None:
        raise WeightsError(f"weights of {tensor.dtype} cannot be published; allowed are {', '.join(_NAMES)}")
    return Form(dtype=name, shape=tuple(tensor.shape))


def lies_here(tensor: "torch.Tensor") -> bool:
    """Whether its bytes are in this machine's memory, row after row."""
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def is_aligned(tensor: "torch.Tensor") -> bool:
    """Whether it begins where torch would have laid it: kernels may add in another order elsewhere."""
    return tensor.data_ptr() % ALIGNED_BYTES == 0


def raw(tensor: "torch.Tensor") -> np.ndarray:
    """uint8 [n]: the bytes of a tensor that lies here, no copy."""
    import torch

    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


def gathered(tensor: "torch.Tensor", data: np.ndarray, placed: Placed) -> np.ndarray:
    """uint8 [n]: the bytes of a tensor: its own, or those at its place in `data`, where they are brought."""
    if lies_here(tensor):
        return raw(tensor)
    view(data, placed).copy_(tensor.detach())
    return data[placed.start : placed.end]


def view(data: np.ndarray, placed: Placed) -> "torch.Tensor":
    """The tensor that lies at its place in `data`, uint8 [n]."""
    import torch

    dtype = getattr(torch, TORCH_NAMES[placed.form.dtype])
    if placed.start == placed.end:
        return torch.empty(placed.form.shape, dtype=dtype)
    flat = torch.from_numpy(data[placed.start : placed.end])
    return flat.view(dtype).reshape(placed.form.shape)
