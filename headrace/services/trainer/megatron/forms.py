"""How Hugging Face tensors become one parameter of megatron-core, a shard for each tensor-parallel rank.

Invariant: `join` of all ranks' shards gives the tensors that `split` was given, bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import pad


class Form(Protocol):
    def split(self, tensors: Sequence[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        """The shard of `rank`, of `ranks`."""
        ...

    def join(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Of the shards of all ranks, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """One tensor that every rank holds."""

    def split(self, tensors: Sequence[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        (tensor,) = tensors
        return tensor

    def join(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [shards[0]]


@dataclass(frozen=True, slots=True)
class Rows:
    """One matrix [`rows`, H], with rows of zeros added up to `padded`, cut into blocks of rows."""

    rows: int
    padded: int

    def split(self, tensors: Sequence[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        (tensor,) = tensors
        size = self.padded // ranks
        own = tensor[min(rank * size, self.rows) : min((rank + 1) * size, self.rows)]
        return pad(own, (0, 0, 0, size - len(own)))

    def join(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.cat(list(shards))[: self.rows]]


@dataclass(frozen=True, slots=True)
class Columns:
    """One matrix [H, K], cut into blocks of columns."""

    def split(self, tensors: Sequence[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        (tensor,) = tensors
        return tensor.chunk(ranks, dim=1)[rank]

    def join(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.cat(list(shards), dim=1)]


@dataclass(frozen=True, slots=True)
class Stacked:
    """Tensors of as many rows each (gate and up), of which a rank holds the same block, one after another."""

    def split(self, tensors: Sequence[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        return torch.cat([tensor.chunk(ranks)[rank] for tensor in tensors])

    def join(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        gates, ups = zip(*(shard.chunk(2) for shard in shards), strict=True)
        return [torch.cat(gates), torch.cat(ups)]


@dataclass(frozen=True, slots=True)
class QueryGroups:
    """Queries, keys and values [heads x size, ...], by query group: its queries, its key, its value."""

    heads: int
    groups: int
    head_size: int

    def split(self, tensors: Sequence[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        grouped = [tensor.unflatten(0, (self.groups, -1)).chunk(ranks)[rank] for tensor in tensors]
        return torch.cat(grouped, dim=1).flatten(0, 1)

    def join(self, shards: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        grouped = torch.cat(list(shards)).unflatten(0, (self.groups, -1))
        queries = self.heads // self.groups * self.head_size
        parts = grouped.split([queries, self.head_size, self.head_size], dim=1)
        return [part.flatten(0, 1) for part in parts]
