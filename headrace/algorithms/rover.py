"""ROVER: token values of a uniformly random policy, by regression (https://arxiv.org/abs/2509.24981)."""

import torch

from headrace.algorithms.advantages import group_mean
from headrace.algorithms.base import Advantages, Algorithm, GroupScores, LossSum, PolicyOutput, TokenBatch
from headrace.algorithms.losses import rover, rover_targets
from headrace.algorithms.options import RoverOptions
from headrace.algorithms.policy_gradient import proximal_logprobs
from headrace.algorithms.reduce import token_mean
from headrace.algorithms.supervised import reduced, unbounded

PROXIMAL_MEAN = "proximal_mean_logprobs"
"""Column of the proximal policy's `mean_logprobs`; absent: the current policy's, before the first update."""


class Rover(Algorithm):
    """Mean over tokens. The credit of a sample is its reward less the group's mean, on every token."""

    def __init__(self, options: RoverOptions) -> None:
        """`options` has nothing to set."""

    def outputs(self) -> tuple[str, ...]:
        return ("mean_logprobs",)

    def advantages(self, scores: GroupScores) -> Advantages:
        return group_mean(scores.rewards, scores.groups)

    def loss(self, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
        means_T = _means(policy)
        targets_T = rover_targets(
            means_T,
            batch.columns.get(PROXIMAL_MEAN, means_T),
            batch.advantages,
            sample=batch.sample,
        )
        losses_T = rover(policy.logprobs, proximal_logprobs(policy, batch), targets_T)
        return reduced(policy, batch, unbounded(policy, batch, losses_T), token_mean(batch))


def _means(policy: PolicyOutput) -> torch.Tensor:
    if policy.mean_logprobs is None:
        raise ValueError("ROVER reads mean_logprobs, which the policy did not give; name it in outputs()")
    return policy.mean_logprobs.detach()
