"""model.safetensors, written a tensor at a time as they come: no more of the model is held than that."""

import json
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

import torch

TYPES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64"}
ALIGNMENT = 8
"""Bytes that the header is a multiple of, so that what follows lies well in memory."""


def write_model(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    dtype: torch.dtype,
    tensors: Iterable[tuple[str, torch.Tensor]],
) -> None:
    """Raises RuntimeError where `tensors` are not those of `shapes`, in their order, or of another type."""
    with path.open("wb") as file:
        file.write(_header(shapes, dtype))
        for (name, shape), (came, tensor) in zip(shapes.items(), tensors, strict=True):
            if (came, tuple(tensor.shape), tensor.dtype) != (name, shape, dtype):
                raise RuntimeError(
                    f"{path.name}: {came} {tuple(tensor.shape)} of {tensor.dtype} came where {name} {shape} "
                    f"of {dtype} was to be written"
                )
            file.write(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)


def _header(shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> bytes:
    told: dict[str, object] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, shape in shapes.items():
        end = begin + prod(shape) * dtype.itemsize
        told[name] = {"dtype": TYPES[dtype], "shape": shape, "data_offsets": (begin, end)}
        begin = end
    text = json.dumps(told).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
