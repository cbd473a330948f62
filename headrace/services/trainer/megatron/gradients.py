"""The gradient of a step over all ranks: added up where ranks saw different samples or heads, then clipped.

Invariant: afterwards the ranks that hold the same number hold the same gradient of it, and the norm counts
every number of the model once.
"""

from collections.abc import Sequence

import torch
from torch import distributed
from torch.distributed import ProcessGroup

from headrace.services.trainer.backend import NonFiniteGradientError
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.mapping import EMBEDDING, HEAD_NORMS
from headrace.services.trainer.megatron.shards import BUCKET_BYTES, Held, grouped
from headrace.services.trainer.ranks.group import Ranks
from headrace.services.trainer.tally import Tally


def reduced(held: Sequence[Held], grid: Grid, *, is_held_twice: bool) -> list[torch.Tensor]:
    """The summed gradients of `held`, in its order; a rank that had no samples adds zeros.

    `is_held_twice`: whether the first and the last stage hold the embedding each.
    """
    found = [_gradient(each.parameter) for each in held]
    if grid.tp > 1:
        own_heads = [
            gradient
            for each, gradient in zip(held, found, strict=True)
            if each.entry.local.endswith(HEAD_NORMS)
        ]
        _add_up(own_heads, grid.tensor_group())
    if is_held_twice and (grid.pp_rank == 0 or grid.is_last_stage):
        tied = [g for each, g in zip(held, found, strict=True) if each.entry.names == (EMBEDDING,)]
        _add_up(tied, grid.embedding_group())
    if grid.dp > 1:
        _add_up(found, grid.data_group())
    return found


def global_norm(held: Sequence[Held], gradients: Sequence[torch.Tensor], grid: Grid) -> torch.Tensor:
    """Of the whole model's gradient, float64, the same on every rank."""
    counted = [
        gradient
        for each, gradient in zip(held, gradients, strict=True)
        if not each.entry.is_copy and (each.entry.is_sharded or grid.tp_rank == 0)
    ]
    square = torch.zeros((), dtype=torch.float64, device=gradients[0].device)
    for gradient in counted:
        square += torch.linalg.vector_norm(gradient, dtype=torch.float64).square()
    distributed.all_reduce(square, group=grid.model_group())
    return square.sqrt()


def clip(gradients: Sequence[torch.Tensor], norm: torch.Tensor, most: float) -> None:
    """Scales them down, in place, where `norm` is above `most`."""
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.to(gradient.dtype))


def refuse_non_finite(
    step: int, norm: torch.Tensor, held: Sequence[Held], gradients: Sequence[torch.Tensor], ranks: Ranks
) -> None:
    """Raises NonFiniteGradientError, on every rank, where the norm is not finite."""
    if torch.isfinite(norm):
        return
    odd = [
        name
        for each, gradient in zip(held, gradients, strict=True)
        if not torch.isfinite(gradient).all()
        for name in each.entry.names
    ]
    named = sorted(ranks.together(Tally(sums=dict.fromkeys(odd, 1.0))).sums)
    raise NonFiniteGradientError(
        f"step {step}: the gradient norm is {norm.item()}, not finite in {len(named)} parameters "
        f"({', '.join(named[:3])}); the weights are unchanged: check the step's rewards and "
        "log-probabilities, or lower the learning rate"
    )


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _add_up(tensors: Sequence[torch.Tensor], group: ProcessGroup) -> None:
    """Over the ranks of `group`, in place, a bucket at a time."""
    for bucket in grouped(tensors, lambda tensor: tensor.nbytes, BUCKET_BYTES):
        flat = torch.cat([tensor.flatten() for tensor in bucket])
        distributed.all_reduce(flat, group=group)
        for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
            tensor.copy_(part.view_as(tensor))
