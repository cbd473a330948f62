"""Tensors in safetensors files: read whole or in part, each kept in one piece or in boxes of several files.

A trainer's state is of such boxes: each rank writes one file of what it holds, and every rank of whatever
layout comes later reads the parts that it needs. The layout is that in which torch.distributed.checkpoint
keeps safetensors. Invariant: the boxes of a tensor do not overlap and make up the whole of it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from headrace.services.trainer.checkpoint import TENSORS

SHARDING = "DCP_SHARDING_INFO"
"""Key of a file's header: where each of its tensors begins."""
OFFSETS = "saved_offsets"

Offsets = tuple[int, ...]


def state_files(directory: Path) -> "TensorFiles":
    """The state in a checkpoint."""
    return TensorFiles(directory.glob(TENSORS))


def write_state(
    directory: Path,
    tensors: Mapping[str, torch.Tensor],
    offsets: Mapping[str, Offsets] | None = None,
    *,
    rank: int = 0,
    ranks: int = 1,
) -> None:
    """Writes the file of `rank`, of `ranks`; `offsets` say where a tensor begins in the whole, if not at
    its beginning."""
    name = TENSORS.replace("*", "" if ranks == 1 else f"-{rank + 1:05d}-of-{ranks:05d}")
    begins = {
        key: {OFFSETS: list((offsets or {}).get(key, (0,) * tensor.dim()))} for key, tensor in tensors.items()
    }
    whole = {key: tensor.contiguous() for key, tensor in tensors.items()}
    save_file(whole, directory / name, metadata={SHARDING: json.dumps(begins, sort_keys=True)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    file: Any = field(repr=False)
    begin: Offsets
    shape: tuple[int, ...]

    def shared_with(self, wanted: Sequence[slice]) -> tuple[slice, ...] | None:
        """The part of `wanted`, which is of the whole tensor, that lies in the box; None where none does."""
        bounds = zip(wanted, self.begin, self.shape, strict=True)
        found = tuple(slice(max(w.start, b), min(w.stop, b + size)) for w, b, size in bounds)
        return found if all(each.start < each.stop for each in found) else None

    def read(self, name: str, shared: Sequence[slice]) -> torch.Tensor:
        if not shared:
            return self.file.get_tensor(name)
        return self.file.get_slice(name)[_moved(shared, self.begin)]


class TensorFiles(Mapping[str, torch.Tensor]):
    """Whole tensors by name, each read when it is asked for, and parts of them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._boxes: dict[str, list[_Box]] = {}
        for path in sorted(paths):
            self._open(path)

    def shape(self, name: str) -> tuple[int, ...]:
        ends = [[b + size for b, size in zip(box.begin, box.shape, strict=True)] for box in self._boxes[name]]
        return tuple(map(max, zip(*ends, strict=True)))

    def part(self, name: str, wanted: Sequence[slice]) -> torch.Tensor:
        """What lies between the bounds that `wanted` gives for each dimension.

        Raises KeyError for a name that is not there, ValueError where a box of it is missing.
        """
        size = tuple(each.stop - each.start for each in wanted)
        if not prod(size):
            return self._boxes[name][0].file.get_tensor(name).new_empty(size)
        parts = [
            (shared, box.read(name, shared))
            for box in self._boxes[name]
            if (shared := box.shared_with(wanted)) is not None
        ]
        if sum(read.numel() for _, read in parts) != prod(size):
            raise ValueError(f"a part of {name} is in none of the files; start from another checkpoint")
        if len(parts) == 1:
            return parts[0][1]
        made = parts[0][1].new_empty(size)
        for shared, read in parts:
            made[_moved(shared, [each.start for each in wanted])] = read
        return made

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.part(name, [slice(0, size) for size in self.shape(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._boxes)

    def __len__(self) -> int:
        return len(self._boxes)

    def _open(self, path: Path) -> None:
        file: Any = safe_open(path, framework="pt")
        begins = json.loads((file.metadata() or {}).get(SHARDING, "{}"))
        for name in file.keys():  # noqa: SIM118  an open file is no mapping
            shape = tuple(file.get_slice(name).get_shape())
            begin = tuple(begins[name][OFFSETS]) if begins else (0,) * len(shape)
            self._boxes.setdefault(name, []).append(_Box(file=file, begin=begin, shape=shape))


def _moved(bounds: Sequence[slice], begin: Sequence[int]) -> tuple[slice, ...]:
    """`bounds`, counted from `begin`."""
    return tuple(slice(each.start - b, each.stop - b) for each, b in zip(bounds, begin, strict=True))
