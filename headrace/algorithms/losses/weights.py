"""Weights that correct for who sampled a token; detached, and never part of the clipped step."""

from dataclasses import dataclass
from typing import Literal

import torch

from headrace.algorithms.losses.ratio import ratio
from headrace.algorithms.losses.sequence import gspo_ratio

Mode = Literal["truncate", "mask"]
Level = Literal["token", "sequence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Behaviour weights before and after they were bounded; [T], detached."""

    raw: torch.Tensor
    weights: torch.Tensor
    """What multiplies the loss; 0 where masked out."""


def behaviour_weights(proximal_logprobs: torch.Tensor, behaviour_logprobs: torch.Tensor) -> torch.Tensor:
    """exp(proximal - behaviour) per token, detached.

    Batch size-invariance for policy optimization (https://arxiv.org/abs/2110.00641), decoupled objective.
    """
    return ratio(proximal_logprobs.detach(), behaviour_logprobs.detach())


def correct(
    proximal_logprobs: torch.Tensor,
    behaviour_logprobs: torch.Tensor,
    *,
    mask: torch.Tensor,
    sample: torch.Tensor,
    mode: Mode,
    level: Level,
    low: float,
    high: float,
) -> Correction:
    """Weights of `behaviour_weights` bounded by `low` and `high`; tensors are [T].

    `truncate`: outside the bounds the weight becomes the bound. With low 0 this is truncated importance
    sampling (https://fengyao.notion.site/off-policy-rl). `mask`: outside the bounds it becomes 0, on both
    sides, as in IcePop (https://arxiv.org/abs/2510.18855). At the level `sequence` a sample has one weight,
    the geometric mean of its tokens', as in AReaL; TRL and verl multiply instead. The divisor of the loss
    stays that of the unbounded mask, so masking never inflates the tokens that are kept.
    """
    if level == "token":
        raw_T = behaviour_weights(proximal_logprobs, behaviour_logprobs)
    else:
        raw_T = gspo_ratio(proximal_logprobs.detach(), behaviour_logprobs.detach(), mask=mask, sample=sample)
    if mode == "truncate":
        return Correction(raw=raw_T, weights=raw_T.clamp(low, high))
    inside_T = (raw_T >= low) & (raw_T <= high)
    return Correction(raw=raw_T, weights=torch.where(inside_T, raw_T, torch.zeros_like(raw_T)))
