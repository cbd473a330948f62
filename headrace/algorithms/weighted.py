"""Policy gradients whose importance weight is a number: CISPO, RAPID, TOPR. No token loses its gradient."""

import torch

from headrace.algorithms.base import PolicyOutput, TokenBatch
from headrace.algorithms.losses import Correction, policy_gradient, ratio, topr_weights
from headrace.algorithms.options import ToprOptions
from headrace.algorithms.options.policy_gradient import Weighted
from headrace.algorithms.policy_gradient import PolicyGradientAlgorithm
from headrace.algorithms.surrogate import Surrogate


class WeightedGradient(PolicyGradientAlgorithm):
    """The ratio to the behaviour policy, truncated: CISPO (https://arxiv.org/abs/2506.13585) and RAPID."""

    def __init__(self, options: Weighted) -> None:
        super().__init__(options)
        self._high = options.weight_high

    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        ratio_T = ratio(policy.logprobs.detach(), batch.behaviour_logprobs)
        return weighted_surrogate(policy, batch, ratio_T, ratio_T.clamp(max=self._high))


class Topr(PolicyGradientAlgorithm):
    """Tapered off-policy REINFORCE (https://arxiv.org/abs/2503.14286)."""

    def __init__(self, options: ToprOptions) -> None:
        super().__init__(options)

    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        ratio_T = ratio(policy.logprobs.detach(), batch.behaviour_logprobs)
        weights_T = topr_weights(
            policy.logprobs,
            batch.behaviour_logprobs,
            batch.advantages,
            mask=batch.mask,
            sample=batch.sample,
        )
        return weighted_surrogate(policy, batch, ratio_T, weights_T)


def weighted_surrogate(
    policy: PolicyOutput, batch: TokenBatch, ratios: torch.Tensor, weights: torch.Tensor
) -> Surrogate:
    """-weights A log pi, with the token ratios to the behaviour policy for the diagnostics; all [T]."""
    held_T = torch.zeros_like(ratios, dtype=torch.bool)
    return Surrogate(
        losses=policy_gradient(policy.logprobs, weights, batch.advantages),
        anchor_logprobs=batch.behaviour_logprobs,
        ratio=ratios,
        low=held_T,
        high=held_T,
        correction=Correction(raw=ratios, weights=weights),
    )
