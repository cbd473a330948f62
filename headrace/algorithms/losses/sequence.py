"""Ratios of whole samples, given to each of their tokens; masked tokens enter no sum and no mean."""

import torch

from headrace.algorithms.losses.ratio import clamped
from headrace.algorithms.shapes import assert_tokens


def gspo_ratio(
    logprobs: torch.Tensor, anchor_logprobs: torch.Tensor, *, mask: torch.Tensor, sample: torch.Tensor
) -> torch.Tensor:
    """exp of the mean log-ratio of the token's sample: s_i of GSPO; all [T].

    Group sequence policy optimization (https://arxiv.org/abs/2507.18071), equation 7. `mask` is 1 on trained
    tokens, `sample` int64, the sample's index.
    """
    sums_S, tokens_S = _sample_sums(logprobs, anchor_logprobs, mask, sample)
    return torch.exp(clamped(sums_S / tokens_S.clamp(min=1.0)))[sample]


def gspo_token_ratio(
    logprobs: torch.Tensor, anchor_logprobs: torch.Tensor, *, mask: torch.Tensor, sample: torch.Tensor
) -> torch.Tensor:
    """The value of `gspo_ratio` with the gradient of the token's own log-probability: s_i,t of GSPO-token.

    Group sequence policy optimization (https://arxiv.org/abs/2507.18071), equation 14. All [T].
    """
    ratio_T = gspo_ratio(logprobs.detach(), anchor_logprobs, mask=mask, sample=sample)
    return ratio_T * torch.exp(logprobs - logprobs.detach())


def product_ratio(
    logprobs: torch.Tensor, anchor_logprobs: torch.Tensor, *, mask: torch.Tensor, sample: torch.Tensor
) -> torch.Tensor:
    """exp of the summed log-ratio of the token's sample: the ratio of the answers' probabilities; all [T]."""
    sums_S, _ = _sample_sums(logprobs, anchor_logprobs, mask, sample)
    return torch.exp(clamped(sums_S))[sample]


def _sample_sums(
    logprobs: torch.Tensor, anchor_logprobs: torch.Tensor, mask: torch.Tensor, sample: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-ratios and trained tokens, summed by sample; [S] each."""
    assert_tokens(logprobs=logprobs, anchor_logprobs=anchor_logprobs, mask=mask, sample=sample)
    samples = int(sample[-1]) + 1 if len(sample) else 0
    empty_S = logprobs.new_zeros(samples)
    trained_T = torch.where(mask > 0, logprobs - anchor_logprobs, torch.zeros_like(logprobs))
    return empty_S.index_add(0, sample, trained_T), empty_S.index_add(0, sample, mask)
