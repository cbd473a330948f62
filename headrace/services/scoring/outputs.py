"""What a loss may ask of the logits at its tokens; at most one [T, V] is kept for the backward pass.

The log-probabilities of the whole vocabulary are that one; everything else is made of them in slices.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from headrace.algorithms.base import OUTPUTS, PolicyOutput

SLICE_ELEMENTS = 1 << 22
"""Elements of [T, V] in work at once."""


def token_outputs(
    logits: torch.Tensor, targets: torch.Tensor, *, temperature: float, names: Sequence[str]
) -> PolicyOutput:
    """Of log softmax(logits / temperature): logits [T, V], targets int64 [T]; at least float32.

    What `names` names carries a gradient. Raises ValueError for a name that logits do not tell.
    """
    for name in names:
        if name not in ("entropy", "mean_logprobs"):
            raise ValueError(
                f"the loss asks for {name!r}; a language model's logits give entropy and mean_logprobs"
                + (
                    ", values need a value head, which the trainer gives to a built-in credit by gae"
                    if name in OUTPUTS
                    else ""
                )
            )
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    tempered = precise if temperature == 1.0 else precise / temperature
    logprobs_TV = torch.log_softmax(tempered, dim=-1)
    differentiable = logprobs_TV if "entropy" in names else logprobs_TV.detach()
    return PolicyOutput(
        logprobs=logprobs_TV.gather(1, targets[:, None])[:, 0],
        entropy=Entropy.apply(differentiable),
        mean_logprobs=logprobs_TV.mean(dim=-1) if "mean_logprobs" in names else None,
    )


def join(parts: Sequence[PolicyOutput]) -> PolicyOutput:
    """The tokens of all parts, in their order; parts of one algorithm have the same outputs."""

    def joined(name: str) -> Any:
        tensors = [getattr(part, name) for part in parts]
        return None if tensors[0] is None else torch.cat(tensors)

    return PolicyOutput(logprobs=joined("logprobs"), **{name: joined(name) for name in OUTPUTS})


class Entropy(torch.autograd.Function):
    """-sum of p log p over the last dimension of log p, [T, V] to [T], in slices of T."""

    @staticmethod
    def forward(ctx: FunctionCtx, logprobs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logprobs)
        slices = _slices(logprobs)
        return torch.cat([-(part.exp() * _finite(part)).sum(dim=-1) for part in slices])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (logprobs,) = ctx.saved_tensors
        result = torch.empty_like(logprobs)
        sized = [len(part) for part in _slices(logprobs)]
        for own, part, gradient in zip(
            result.split(sized), logprobs.split(sized), gradients[0].split(sized), strict=True
        ):
            torch.mul(-part.exp() * (_finite(part) + 1.0), gradient[:, None], out=own)
        return result


def _slices(logprobs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return logprobs.split(max(1, SLICE_ELEMENTS // logprobs.shape[1]))


def _finite(logprobs: torch.Tensor) -> torch.Tensor:
    """Impossible tokens, of log-probability -inf, add nothing."""
    return logprobs.clamp(min=torch.finfo(logprobs.dtype).min)
