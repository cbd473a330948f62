"""Tensors that go to other ranks of a node as a file which they map, not as a message."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class TensorFile:
    path: Path

    def write(self, tensors: "Mapping[str, torch.Tensor]") -> None:
        from safetensors.torch import save_file

        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, self.path)

    def read(self) -> "dict[str, torch.Tensor]":
        """Views of the file, which may be unlinked meanwhile."""
        from safetensors.torch import load_file

        return load_file(self.path)
