"""The clipped surrogate of PPO and what descends from it: asymmetric bounds and the dual clip."""

import torch

from headrace.algorithms.losses.ratio import ratio
from headrace.algorithms.shapes import assert_tokens


def ppo_clip(
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """`clip_surrogate` of the token ratios r = exp(current - proximal); all tensors [T]."""
    assert_tokens(logprobs=logprobs, proximal_logprobs=proximal_logprobs, advantages=advantages)
    return clip_surrogate(
        ratio(logprobs, proximal_logprobs),
        advantages,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=dual_clip,
    )


def clip_surrogate(
    ratios: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), and at most dual_clip |A| where A < 0; all [T].

    Proximal policy optimization (https://arxiv.org/abs/1707.06347), equation 7; the upper bound of its own is
    DAPO's (https://arxiv.org/abs/2503.14476), section 3.1. The dual clip (https://arxiv.org/abs/1912.09729)
    must exceed 1; None: none. TRL calls it `delta`, and agrees where it is above 1 + clip_high.
    """
    assert_tokens(ratios=ratios, advantages=advantages)
    clipped_T = ratios.clamp(1.0 - clip_low, 1.0 + clip_high)
    losses_T = -torch.minimum(ratios * advantages, clipped_T * advantages)
    if dual_clip is None:
        return losses_T
    return torch.where(advantages < 0, torch.minimum(losses_T, -dual_clip * advantages), losses_T)
