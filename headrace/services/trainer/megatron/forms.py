"""How Hugging Face tensors become one parameter of megatron-core, a shard for each tensor-parallel rank.

A rank holds an even part of each tensor, cut along one axis, and `fuse` lays the parts together. Invariant:
`join` of all ranks' shards gives the tensors that `split` was given, bit for bit.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn.functional import pad

Bounds = tuple[slice, ...]
"""A start and a stop for each dimension."""


class Form(ABC):
    __slots__ = ()
    axis: ClassVar[int | None] = 0
    """Along which ranks share the tensors out; None: every rank holds all."""

    @abstractmethod
    def fuse(self, parts: Sequence[torch.Tensor], ranks: int) -> torch.Tensor:
        """The shard of a rank, of its part of each tensor."""

    @abstractmethod
    def parts(self, shard: torch.Tensor, ranks: int, rank: int) -> list[torch.Tensor]:
        """The part that `rank` holds of each tensor, of its shard."""

    def bounds(self, shape: Sequence[int], ranks: int, rank: int) -> Bounds:
        """Where the part of `rank` lies in a tensor of `shape`."""
        found = [slice(0, size) for size in shape]
        if self.axis is not None:
            size = shape[self.axis] // ranks
            found[self.axis] = slice(rank * size, (rank + 1) * size)
        return tuple(found)

    def split(self, tensors: Sequence[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        """The shard of `rank`, of `ranks`."""
        return self.fuse([tensor[self.bounds(tensor.shape, ranks, rank)] for tensor in tensors], ranks)

    def join(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Of the shards of all ranks, in their order."""
        found = [self.parts(shard, len(shards), rank) for rank, shard in enumerate(shards)]
        if self.axis is None:
            return found[0]
        return [torch.cat(parts, dim=self.axis) for parts in zip(*found, strict=True)]


@dataclass(frozen=True, slots=True)
class Whole(Form):
    """One tensor that every rank holds."""

    axis: ClassVar[int | None] = None

    def fuse(self, parts: Sequence[torch.Tensor], ranks: int) -> torch.Tensor:
        return parts[0]

    def parts(self, shard: torch.Tensor, ranks: int, rank: int) -> list[torch.Tensor]:
        return [shard]


@dataclass(frozen=True, slots=True)
class Rows(Form):
    """One matrix [`rows`, H], with rows of zeros added up to `padded`, cut into blocks of rows."""

    rows: int
    padded: int

    def bounds(self, shape: Sequence[int], ranks: int, rank: int) -> Bounds:
        size = self.padded // ranks
        own = slice(min(rank * size, self.rows), min((rank + 1) * size, self.rows))
        return (own, *(slice(0, each) for each in shape[1:]))

    def fuse(self, parts: Sequence[torch.Tensor], ranks: int) -> torch.Tensor:
        (own,) = parts
        return pad(own, (0, 0, 0, self.padded // ranks - len(own)))

    def parts(self, shard: torch.Tensor, ranks: int, rank: int) -> list[torch.Tensor]:
        own = self.bounds(shard.shape, ranks, rank)[0]
        return [shard[: own.stop - own.start]]


@dataclass(frozen=True, slots=True)
class Columns(Form):
    """One matrix [H, K], cut into blocks of columns."""

    axis: ClassVar[int | None] = 1

    def fuse(self, parts: Sequence[torch.Tensor], ranks: int) -> torch.Tensor:
        return parts[0]

    def parts(self, shard: torch.Tensor, ranks: int, rank: int) -> list[torch.Tensor]:
        return [shard]


@dataclass(frozen=True, slots=True)
class Stacked(Form):
    """Tensors of as many rows each (gate and up), of which a rank holds the same block, one after another."""

    def fuse(self, parts: Sequence[torch.Tensor], ranks: int) -> torch.Tensor:
        return torch.cat(list(parts))

    def parts(self, shard: torch.Tensor, ranks: int, rank: int) -> list[torch.Tensor]:
        return list(shard.chunk(2))


@dataclass(frozen=True, slots=True)
class QueryGroups(Form):
    """Queries, keys and values [heads x size, ...], by query group: its queries, its key, its value."""

    heads: int
    groups: int
    head_size: int

    def fuse(self, parts: Sequence[torch.Tensor], ranks: int) -> torch.Tensor:
        grouped = [part.unflatten(0, (self.groups // ranks, -1)) for part in parts]
        return torch.cat(grouped, dim=1).flatten(0, 1)

    def parts(self, shard: torch.Tensor, ranks: int, rank: int) -> list[torch.Tensor]:
        grouped = shard.unflatten(0, (self.groups // ranks, -1))
        queries = self.heads // self.groups * self.head_size
        found = grouped.split([queries, self.head_size, self.head_size], dim=1)
        return [part.flatten(0, 1) for part in found]
