"""The processes that train one model together, seen from one of them.

Invariant: every rank makes the same calls in the same order, and gets the same numbers, bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import msgpack
import numpy as np
import torch
import torch.distributed as dist

from headrace.services.trainer.tally import Tally


class Ranks(Protocol):
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replaces each by its sum over the ranks."""
        ...

    def add_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replaces each gradient by the sum of those that ranks have; none, where no rank has one."""
        ...

    def most(self, number: int) -> int:
        """The largest that a rank has."""
        ...

    def together(self, tally: Tally) -> Tally:
        """Of all ranks."""
        ...


@dataclass(frozen=True, slots=True)
class Alone:
    """A trainer of one process."""

    rank: int = 0
    size: int = 1

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        return

    def add_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        return

    def most(self, number: int) -> int:
        return number

    def together(self, tally: Tally) -> Tally:
        return tally


ALONE = Alone()


@dataclass(frozen=True, slots=True)
class Group:
    """The default process group of torch.distributed."""

    rank: int
    size: int

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor)

    def add_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        if not parameters:
            return
        has_one = torch.tensor([int(p.grad is not None) for p in parameters], device=parameters[0].device)
        dist.all_reduce(has_one)
        summed = [p for p, ranks in zip(parameters, has_one.tolist(), strict=True) if ranks]
        for parameter in summed:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.add_up([parameter.grad for parameter in summed if parameter.grad is not None])

    def most(self, number: int) -> int:
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def together(self, tally: Tally) -> Tally:
        """Merged in the order of the ranks."""
        said = cast(bytes, msgpack.packb([tally.total, tally.count, tally.sums, tally.maxima]))
        own = np.frombuffer(said, np.uint8)
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(own)
        dist.all_reduce(sizes)
        parts = torch.zeros(self.size, int(sizes.max()), dtype=torch.uint8)
        parts[self.rank, : len(own)] = torch.from_numpy(own.copy())
        dist.all_reduce(parts)
        whole = Tally()
        for part, size in zip(parts.numpy(), sizes.tolist(), strict=True):
            total, count, sums, maxima = msgpack.unpackb(part[:size].tobytes())
            whole.merge(Tally(total=total, count=count, sums=sums, maxima=maxima))
        return whole
