"""Losses that leave tokens out on both sides of the ratio, whatever the sign of their credit: SAO, M2PO."""

from collections.abc import Mapping

import torch

from headrace.algorithms.base import PolicyOutput, TokenBatch
from headrace.algorithms.losses import Correction, masked_ratio, ratio, second_moment_mask
from headrace.algorithms.options import M2poOptions, SaoOptions
from headrace.algorithms.policy_gradient import PolicyGradientAlgorithm
from headrace.algorithms.surrogate import Surrogate

KEPT = "kept"
"""Column of M2PO's decision: 1 on the tokens that it keeps."""


class Sao(PolicyGradientAlgorithm):
    """Single-rollout asynchronous optimisation: a fixed band of the ratio, token by token."""

    def __init__(self, options: SaoOptions) -> None:
        """Raises ValueError for a band that leaves the on-policy ratio out."""
        super().__init__(options)
        if options.ratio_high < 1.0:
            raise ValueError(
                f"ratio_high is {options.ratio_high}; it must be at least 1, the ratio on policy"
            )
        self._low, self._high = options.ratio_low, options.ratio_high

    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        ratio_T = ratio(policy.logprobs.detach(), batch.behaviour_logprobs)
        low_T, high_T = ratio_T < self._low, ratio_T > self._high
        losses_T = masked_ratio(
            policy.logprobs, batch.behaviour_logprobs, batch.advantages, low=self._low, high=self._high
        )
        kept_T = torch.where(low_T | high_T, torch.zeros_like(ratio_T), ratio_T)
        return Surrogate(
            losses=losses_T,
            anchor_logprobs=batch.behaviour_logprobs,
            ratio=ratio_T,
            low=low_T,
            high=high_T,
            correction=Correction(raw=ratio_T, weights=kept_T),
        )


class M2po(PolicyGradientAlgorithm):
    """Second-moment trust policy optimisation (https://arxiv.org/abs/2510.01161): the batch sets the band."""

    prepares = True

    def __init__(self, options: M2poOptions) -> None:
        super().__init__(options)
        self._threshold = options.threshold
        self.needs_full_batch = True

    def prepare(self, policy: PolicyOutput, batch: TokenBatch) -> Mapping[str, torch.Tensor]:
        kept_T = second_moment_mask(
            policy.logprobs, batch.behaviour_logprobs, mask=batch.mask, threshold=self._threshold
        )
        return {KEPT: kept_T}

    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        ratio_T, kept_T = ratio(policy.logprobs, batch.behaviour_logprobs), batch.column(KEPT)
        still_T, left_out_T = ratio_T.detach(), kept_T == 0
        return Surrogate(
            losses=-kept_T * ratio_T * batch.advantages,
            anchor_logprobs=batch.behaviour_logprobs,
            ratio=still_T,
            low=left_out_T & (still_T < 1.0),
            high=left_out_T & (still_T >= 1.0),
            correction=Correction(raw=still_T, weights=kept_T * still_T),
        )
