"""Losses with a target instead of an advantage: imitation, reward as label, reward as value."""

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from headrace.algorithms.shapes import assert_samples, assert_tokens


def likelihood(logprobs: torch.Tensor) -> torch.Tensor:
    """-log pi per token, [T]: maximum likelihood."""
    assert_tokens(logprobs=logprobs)
    return -logprobs


def pacs(
    scores: torch.Tensor, labels: torch.Tensor, group: torch.Tensor, *, balanced: bool = False
) -> torch.Tensor:
    """Cross-entropy of the label against the score less the mean score of the group's others; all [S].

    PACS (https://arxiv.org/abs/2509.02522): the score is beta times the summed log-ratio of
    the answer, the label its reward in [0, 1]. `group` is int64. A sample alone in its group keeps its score.
    `balanced` weighs an answer by the group's size over twice the number of answers with a label on its
    side of 1/2, so that both sides of a group weigh the same.
    """
    assert_samples(scores=scores, labels=labels, group=group)
    size_S = _group_sums(torch.ones_like(scores), group)
    others_S = (_group_sums(scores, group) - scores) / (size_S - 1.0).clamp(min=1.0)
    losses_S = binary_cross_entropy_with_logits(scores - others_S, labels, reduction="none")
    if not balanced:
        return losses_S
    right_S = (labels > 0.5).to(scores.dtype)
    rights_S = _group_sums(right_S, group)
    same_S = torch.where(right_S > 0, rights_S, size_S - rights_S)
    both_S = (rights_S > 0) & (rights_S < size_S)
    return torch.where(both_S, losses_S * size_S / (2.0 * same_S), losses_S)


def rover(logprobs: torch.Tensor, proximal_logprobs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """(Q - target)^2 per token with Q = log pi - log proximal; all [T], no gradient through the target.

    ROVER (https://arxiv.org/abs/2509.24981), with Q in its relative form.
    """
    assert_tokens(logprobs=logprobs, proximal_logprobs=proximal_logprobs, targets=targets)
    return (logprobs - proximal_logprobs - targets.detach()).square()


def rover_targets(
    mean_logprobs: torch.Tensor,
    proximal_mean_logprobs: torch.Tensor,
    centred_rewards: torch.Tensor,
    *,
    sample: torch.Tensor,
) -> torch.Tensor:
    """Centred reward plus the mean Q over the vocabulary at the next token, 0 after the last; all [T].

    ROVER (https://arxiv.org/abs/2509.24981): the value of a uniformly random policy. The mean of Q
    is the mean log-probability less the proximal policy's. Detached.
    """
    assert_tokens(
        mean_logprobs=mean_logprobs,
        proximal_mean_logprobs=proximal_mean_logprobs,
        centred_rewards=centred_rewards,
        sample=sample,
    )
    successor_T = torch.zeros_like(centred_rewards)
    values_T = (mean_logprobs - proximal_mean_logprobs).detach()
    follows = sample[1:] == sample[:-1]
    successor_T[:-1] = torch.where(follows, values_T[1:], successor_T[:-1])
    return centred_rewards + successor_T


def _group_sums(values: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """Sum over the sample's group, [S]."""
    _, index = torch.unique(group, return_inverse=True)
    return values.new_zeros(len(values)).index_add(0, index, values)[index]
