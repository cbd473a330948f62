"""What a loss asks of logits whose vocabulary is spread over the tensor-parallel ranks.

Each rank holds the logits of its own tokens of the vocabulary; what comes out is the same on every rank, and
so must be the gradients that come back. No rank ever holds the whole vocabulary's.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed
from torch.autograd.function import FunctionCtx
from torch.distributed import ProcessGroup, ReduceOp

from headrace.algorithms.base import PolicyOutput


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError for one of `algorithms.base.OUTPUTS` that logits do not tell."""
    if odd := [name for name in names if name not in ("entropy", "mean_logprobs")]:
        raise ValueError(
            f"the loss asks for {odd[0]!r}; the Megatron back end gives entropy and mean_logprobs: set the "
            "algorithm's critic: node where it has one, or train with backend: torch"
        )


def token_outputs(
    logits: torch.Tensor,
    targets: torch.Tensor,
    *,
    first: int,
    vocabulary: int,
    group: ProcessGroup,
    temperature: float,
    names: Sequence[str],
) -> PolicyOutput:
    """Of log softmax(logits / temperature): logits [T, V / ranks], targets int64 [T]; at least float32.

    The rank's logits are those of the tokens from `first` on; those past `vocabulary` are padding and take no
    part. What `names` names carries a gradient.
    """
    real_TV = logits[:, : max(0, min(logits.shape[1], vocabulary - first))]
    precise_TV = real_TV.to(torch.promote_types(logits.dtype, torch.float32))
    tempered_TV = precise_TV if temperature == 1.0 else precise_TV / temperature
    total_T = _LogSumExp.apply(tempered_TV, group)
    apart_TV = tempered_TV if "entropy" in names else tempered_TV.detach()
    mean_T = _Sum.apply(tempered_TV, group) / vocabulary - total_T if "mean_logprobs" in names else None
    return PolicyOutput(
        logprobs=_Chosen.apply(tempered_TV, targets - first, group) - total_T,
        entropy=_Entropy.apply(apart_TV, total_T.detach(), group),
        mean_logprobs=mean_T,
    )


class _LogSumExp(torch.autograd.Function):
    """[T, V / ranks] to [T]."""

    @staticmethod
    def forward(ctx: FunctionCtx, logits: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        lowest = logits.new_full((len(logits), 1), -torch.inf)
        largest_T = torch.cat((lowest, logits), dim=1).amax(dim=1)
        distributed.all_reduce(largest_T, ReduceOp.MAX, group=group)
        sum_T = (logits - largest_T[:, None]).exp().sum(dim=1)
        distributed.all_reduce(sum_T, group=group)
        total_T = sum_T.log() + largest_T
        ctx.save_for_backward(logits, total_T)
        return total_T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, total_T = ctx.saved_tensors
        return (logits - total_T[:, None]).exp_().mul_(gradients[0][:, None]), None


class _Chosen(torch.autograd.Function):
    """The logit of one token of each row, [T, V / ranks] to [T]; `places` count from the rank's first."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, places: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        (rows,) = torch.nonzero((places >= 0) & (places < logits.shape[1]), as_tuple=True)
        chosen_T = logits.new_zeros(len(logits))
        chosen_T[rows] = logits[rows, places[rows]]
        distributed.all_reduce(chosen_T, group=group)
        ctx.save_for_backward(rows, places[rows])
        ctx.shape = logits.shape
        return chosen_T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        rows, places = ctx.saved_tensors
        result = gradients[0].new_zeros(ctx.shape)
        result[rows, places] = gradients[0][rows]
        return result, None, None


class _Entropy(torch.autograd.Function):
    """-sum of p log p where log p = logits - `total`, [T, V / ranks] to [T]; the gradient is through both."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, logits: torch.Tensor, total: torch.Tensor, group: ProcessGroup
    ) -> torch.Tensor:
        logprobs = logits - total[:, None]
        entropy_T = -(logprobs.exp() * _finite(logprobs)).sum(dim=1)
        distributed.all_reduce(entropy_T, group=group)
        ctx.save_for_backward(logits, total, entropy_T)
        return entropy_T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logits, total, entropy_T = ctx.saved_tensors
        logprobs = logits - total[:, None]
        slope = _finite(logprobs) + entropy_T[:, None]
        return slope.mul_(logprobs.exp_()).mul_(-gradients[0][:, None]), None, None


class _Sum(torch.autograd.Function):
    """[T, V / ranks] to [T]."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, group: ProcessGroup) -> torch.Tensor:
        sum_T = logits.sum(dim=1)
        distributed.all_reduce(sum_T, group=group)
        ctx.shape = logits.shape
        return sum_T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0][:, None].expand(ctx.shape), None


def _finite(logprobs: torch.Tensor) -> torch.Tensor:
    """Impossible tokens, of log-probability -inf, add nothing."""
    return logprobs.clamp(min=torch.finfo(logprobs.dtype).min)
