"""PACS: the reward is the label of an answer's score (https://arxiv.org/abs/2509.02522).

An answer's loss depends on the scores of its whole group. `prepare` takes the value and the slope of the
group's loss at the current policy; `loss` is then linear in each answer's own score, with that value and
exactly that gradient, so a group may be split over micro-batches.
"""

from collections.abc import Mapping

import numpy as np
import torch

from headrace.algorithms.base import Advantages, Algorithm, GroupScores, LossSum, PolicyOutput, TokenBatch
from headrace.algorithms.losses import pacs
from headrace.algorithms.options import PacsOptions
from headrace.algorithms.policy_gradient import proximal_logprobs
from headrace.algorithms.reduce import Reduction
from headrace.algorithms.supervised import reduced, unbounded

VALUE, SLOPE = "pacs_value", "pacs_slope"


class Pacs(Algorithm):
    """Mean over answers. Answers with an invalid reward or without a trained token leave their group."""

    prepares = True

    def __init__(self, options: PacsOptions) -> None:
        self._beta = options.beta
        self._balanced = options.balanced

    def advantages(self, scores: GroupScores) -> Advantages:
        return np.zeros(len(scores.rewards))

    def prepare(self, policy: PolicyOutput, batch: TokenBatch) -> Mapping[str, torch.Tensor]:
        """Raises ValueError for a reward outside of [0, 1], which is no label."""
        tokens_S, counted_S = _counted(batch)
        _check_labels(batch.rewards[counted_S])
        moved_T = torch.where(
            batch.mask > 0, policy.logprobs - proximal_logprobs(policy, batch), torch.zeros_like(batch.mask)
        )
        scores_S = self._beta * torch.zeros_like(tokens_S).index_add(0, batch.sample, moved_T.detach())
        with torch.enable_grad():
            leaf = scores_S[counted_S].requires_grad_()
            losses = pacs(leaf, batch.rewards[counted_S], batch.group[counted_S], balanced=self._balanced)
            (slopes,) = torch.autograd.grad(losses.sum(), leaf)
        values_S, slopes_S = torch.zeros_like(scores_S), torch.zeros_like(scores_S)
        values_S[counted_S], slopes_S[counted_S] = losses.detach(), slopes
        per_token_S = values_S / tokens_S.clamp(min=1.0)
        return {VALUE: per_token_S[batch.sample], SLOPE: slopes_S[batch.sample]}

    def loss(self, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
        _, counted_S = _counted(batch)
        own_T = self._beta * (policy.logprobs - policy.logprobs.detach())
        losses_T = batch.column(VALUE) + batch.column(SLOPE) * own_T
        by = Reduction(weights=batch.mask, count=float(counted_S.sum()))
        return reduced(policy, batch, unbounded(policy, batch, losses_T), by)


def _counted(batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Trained tokens of each sample, and whether it counts; [S]."""
    tokens_S = batch.mask.new_zeros(batch.samples).index_add(0, batch.sample, batch.mask)
    return tokens_S, (tokens_S > 0) & ~batch.rewards.isnan()


def _check_labels(labels: torch.Tensor) -> None:
    if len(odd := labels[(labels < 0) | (labels > 1)]):
        raise ValueError(
            f"PACS takes rewards as labels in [0, 1], got {float(odd[0])}; scale the verifier's reward"
        )
