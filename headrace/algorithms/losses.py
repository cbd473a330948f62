"""Surrogate losses, per token; pure. Behaviour, proximal and current log-probabilities stay separate."""

import torch

from headrace.algorithms.shapes import assert_tokens

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to +-20 before `exp`, so that no ratio overflows; beyond, the gradient is 0."""


def ratio(logprobs: torch.Tensor, anchor_logprobs: torch.Tensor) -> torch.Tensor:
    """exp(logprobs - anchor), its exponent clamped to +-20; all [T]."""
    assert_tokens(logprobs=logprobs, anchor_logprobs=anchor_logprobs)
    return torch.exp((logprobs - anchor_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))


def ppo_clip(
    logprobs: torch.Tensor,
    proximal_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> torch.Tensor:
    """-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) per token, with r = exp(current - proximal).

    Proximal policy optimization (https://arxiv.org/abs/1707.06347), equation 7, with the upper bound of its
    own that DAPO proposes (https://arxiv.org/abs/2503.14476), section 3.1. All tensors [T], as is the result.
    """
    assert_tokens(logprobs=logprobs, proximal_logprobs=proximal_logprobs, advantages=advantages)
    ratio_T = ratio(logprobs, proximal_logprobs)
    clipped_T = ratio_T.clamp(1.0 - clip_low, 1.0 + clip_high)
    return -torch.minimum(ratio_T * advantages, clipped_T * advantages)


def behaviour_weights(proximal_logprobs: torch.Tensor, behaviour_logprobs: torch.Tensor) -> torch.Tensor:
    """exp(proximal - behaviour) per token, detached: corrects for who sampled, never clipped with the step.

    Batch size-invariance for policy optimization (https://arxiv.org/abs/2110.00641), decoupled objective.
    """
    return ratio(proximal_logprobs.detach(), behaviour_logprobs.detach())
