"""The gradient of a step over all ranks: added up where ranks saw different samples or heads, then clipped.

Invariant: afterwards each rank holds its part of the gradient, the same as others that hold the same numbers,
and the norm counts every number of the model once.
"""

from collections.abc import Callable, Sequence

import torch
from torch import distributed
from torch.distributed import ProcessGroup

from headrace.services.trainer.gradients import clip, refuse_non_finite
from headrace.services.trainer.megatron.buckets import Bucket
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.mapping import EMBEDDING, HEAD_NORMS, Entry
from headrace.services.trainer.megatron.shards import BUCKET_BYTES, grouped
from headrace.services.trainer.ranks.group import Ranks
from headrace.services.trainer.tally import Tally


def reduce(buckets: Sequence[Bucket], grid: Grid, *, is_held_twice: bool) -> None:
    """Adds up what ranks have; one that had no samples adds zeros.

    `is_held_twice`: whether the first and the last stage hold the embedding each.
    """
    if grid.tp > 1:
        _add_up(_of(buckets, lambda entry: entry.local.endswith(HEAD_NORMS)), grid.tensor_group())
    if is_held_twice and (grid.pp_rank == 0 or grid.is_last_stage):
        _add_up(_of(buckets, lambda entry: entry.names == (EMBEDDING,)), grid.embedding_group())
    for bucket in buckets:
        bucket.reduce(grid)


def scale(
    buckets: Sequence[Bucket], grid: Grid, ranks: Ranks, *, step: int, count: float, max_norm: float
) -> float:
    """Divides by `count` and clips the global norm; returns the norm between the two, the same on every rank.

    Raises NonFiniteGradientError, on every rank, naming the step and parameters.
    """
    own = [bucket.gradients[bucket.own].div_(count) for bucket in buckets]
    norm = _global_norm(buckets, grid)
    if not torch.isfinite(norm):
        odd = {
            name: 1.0
            for bucket in buckets
            for each, part in bucket.own_parts(bucket.gradients)
            if not torch.isfinite(part).all()
            for name in each.entry.names
        }
        refuse_non_finite(step, norm.item(), sorted(ranks.together(Tally(sums=odd)).sums))
    clip(own, norm, max_norm)
    return norm.item()


def _global_norm(buckets: Sequence[Bucket], grid: Grid) -> torch.Tensor:
    """Of the whole model's gradient, float64."""
    square = torch.zeros((), dtype=torch.float64, device=buckets[0].gradients.device)
    for bucket in buckets:
        for each, part in bucket.own_parts(bucket.gradients):
            if not each.entry.is_copy and (each.entry.is_sharded or grid.tp_rank == 0):
                square += torch.linalg.vector_norm(part, dtype=torch.float64).square()
    distributed.all_reduce(square)
    return square.sqrt()


def _of(buckets: Sequence[Bucket], asked: Callable[[Entry], bool]) -> list[torch.Tensor]:
    """The gradients of some parameters, whole."""
    return [
        gradient
        for bucket in buckets
        for each, gradient in zip(bucket.held, bucket.views(bucket.gradients), strict=True)
        if asked(each.entry)
    ]


def _add_up(tensors: Sequence[torch.Tensor], group: ProcessGroup) -> None:
    """Over the ranks of `group`, in place, a bucket at a time."""
    for part in grouped(tensors, lambda tensor: tensor.nbytes, BUCKET_BYTES):
        flat = torch.cat([tensor.flatten() for tensor in part])
        distributed.all_reduce(flat, group=group)
        for tensor, summed in zip(part, flat.split([tensor.numel() for tensor in part]), strict=True):
            tensor.copy_(summed.view_as(tensor))
