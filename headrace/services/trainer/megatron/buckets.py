"""A rank's weights and gradients in flat buckets, of which each data-parallel rank moves an even part.

    gradients of all ranks ─► reduce ─► own part ─► the optimizer steps it ─► publish ─► weights of all ranks

Invariant: after `publish` the ranks of a data-parallel group hold the same weights, and each number of them
was moved by one rank alone, which alone has what its optimizer keeps of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import torch
from torch import distributed
from torch.nn.functional import pad

from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.shards import BUCKET_BYTES, Held, grouped

reduce_scatter = getattr(distributed, "reduce_scatter_single", distributed.reduce_scatter_tensor)
all_gather = getattr(distributed, "all_gather_single", distributed.all_gather_into_tensor)
"""Both under the names that the torch at hand does not warn of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Parameters one after another, with zeros behind them up to a multiple of the ranks."""

    held: tuple[Held, ...]
    weights: torch.Tensor = field(repr=False)
    """[N] in the model's type; the parameters are views of it."""
    gradients: torch.Tensor = field(repr=False)
    """[N], at least float32."""
    own: slice
    """This rank's part of it."""
    stepped: torch.nn.Parameter = field(repr=False)
    """What the optimizer moves: a view of the weights, or a float32 copy of narrower ones; its gradient is a
    view of the gradients."""

    @classmethod
    @torch.no_grad()
    def of(cls, held: Sequence[Held], grid: Grid) -> Self:
        """Moves the parameters of `held` into a bucket of their own."""
        numbers = torch.cat([each.parameter.flatten() for each in held])
        size = -(-len(numbers) // grid.dp)
        weights = pad(numbers, (0, size * grid.dp - len(numbers)))
        gradients = torch.zeros_like(weights, dtype=torch.promote_types(weights.dtype, torch.float32))
        own = slice(grid.dp_rank * size, (grid.dp_rank + 1) * size)
        stepped = torch.nn.Parameter(weights[own].to(gradients.dtype))
        stepped.grad = gradients[own]
        made = cls(held=tuple(held), weights=weights, gradients=gradients, own=own, stepped=stepped)
        for each, view, gradient in zip(held, made.views(weights), made.views(gradients), strict=True):
            parameter = each.parameter
            parameter.data = view
            if made.is_copied:
                parameter.register_post_accumulate_grad_hook(partial(_collect, gradient))
            else:
                parameter.grad = gradient
        return made

    @property
    def is_copied(self) -> bool:
        """Whether the weights are rounded from what the optimizer moves."""
        return self.stepped.dtype != self.weights.dtype

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The parts of `flat` [N], each in the shape of its parameter."""
        return [flat[begin:end].view(each.parameter.shape) for each, begin, end in self._spans()]

    def own_parts(self, flat: torch.Tensor) -> Iterator[tuple[Held, torch.Tensor]]:
        """Of each parameter what lies in this rank's part of `flat` [N]; those without any are left out."""
        for each, begin, end in self._spans():
            if (first := max(begin, self.own.start)) < (last := min(end, self.own.stop)):
                yield each, flat[first:last]

    def reduce(self, grid: Grid) -> None:
        """Adds the gradients of all ranks up, each rank's part at that rank; elsewhere nothing is of use."""
        if grid.dp > 1:
            reduce_scatter(self.gradients[self.own], self.gradients, group=grid.data_group())

    @torch.no_grad()
    def publish(self, grid: Grid) -> None:
        """Gives all ranks what each has moved."""
        if self.is_copied:
            self.weights[self.own].copy_(self.stepped)
        if grid.dp > 1:
            all_gather(self.weights, self.weights[self.own], group=grid.data_group())

    def whole(self, own: torch.Tensor, grid: Grid) -> torch.Tensor:
        """[N], of what each rank keeps of its part."""
        if grid.dp == 1:
            return own
        found = own.new_empty(self.weights.shape)
        all_gather(found, own.contiguous(), group=grid.data_group())
        return found

    def _spans(self) -> Iterator[tuple[Held, int, int]]:
        begin = 0
        for each in self.held:
            end = begin + each.parameter.numel()
            yield each, begin, end
            begin = end


def buckets(held: Sequence[Held], grid: Grid) -> list[Bucket]:
    return [Bucket.of(part, grid) for part in grouped(held, lambda each: each.parameter.nbytes, BUCKET_BYTES)]


def _collect(gradient: torch.Tensor, parameter: torch.Tensor) -> None:
    assert parameter.grad is not None
    gradient.add_(parameter.grad)
    parameter.grad = None
