"""Algorithms without an advantage that learn from each token alone: SFT and on-policy distillation."""

import numpy as np
import torch

from headrace.algorithms.base import Advantages, Algorithm, GroupScores, LossSum, PolicyOutput, TokenBatch
from headrace.algorithms.diagnostics import surrogate_maxima, surrogate_sums
from headrace.algorithms.losses import Correction, likelihood, ratio, reverse_kl
from headrace.algorithms.options import OpdOptions, SftOptions
from headrace.algorithms.reduce import Reduction, token_mean
from headrace.algorithms.surrogate import Surrogate


class Sft(Algorithm):
    """Maximum likelihood of the trained tokens, mean over tokens."""

    def __init__(self, options: SftOptions) -> None:
        """`options` has nothing to set."""

    def advantages(self, scores: GroupScores) -> Advantages:
        return np.ones(len(scores.rewards))

    def loss(self, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
        surrogate = unbounded(policy, batch, likelihood(policy.logprobs))
        return reduced(policy, batch, surrogate, token_mean(batch))


class Opd(Algorithm):
    """On-policy distillation (https://arxiv.org/abs/2306.13649): reverse divergence, mean over tokens.

    Rewards have no part in it. The weight of a stale token is the truncated ratio to its behaviour policy.
    """

    def __init__(self, options: OpdOptions) -> None:
        self._options = options

    def needs(self) -> tuple[str, ...]:
        return self._options.needs()

    def advantages(self, scores: GroupScores) -> Advantages:
        return np.zeros(len(scores.rewards))

    def loss(self, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
        ratio_T = ratio(policy.logprobs.detach(), batch.behaviour_logprobs)
        correction = Correction(raw=ratio_T, weights=ratio_T.clamp(max=self._options.weight_high))
        losses_T = reverse_kl(policy.logprobs, batch.column("teacher_logprobs"), correction.weights)
        return reduced(policy, batch, unbounded(policy, batch, losses_T, correction), token_mean(batch))


def unbounded(
    policy: PolicyOutput, batch: TokenBatch, losses: torch.Tensor, correction: Correction | None = None
) -> Surrogate:
    """Token losses [T] that no bound of the ratio holds back."""
    ratio_T = ratio(policy.logprobs.detach(), batch.behaviour_logprobs)
    held_T = torch.zeros_like(ratio_T, dtype=torch.bool)
    return Surrogate(
        losses=losses,
        anchor_logprobs=batch.behaviour_logprobs,
        ratio=ratio_T,
        low=held_T,
        high=held_T,
        correction=correction,
    )


def reduced(policy: PolicyOutput, batch: TokenBatch, surrogate: Surrogate, by: Reduction) -> LossSum:
    """The losses of `surrogate` and nothing else, with its diagnostics."""
    return LossSum(
        total=by.total(surrogate.losses),
        count=by.count,
        sums=surrogate_sums(policy, surrogate, batch),
        maxima=surrogate_maxima(surrogate, batch),
    )
