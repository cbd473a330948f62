"""The fit of a value model of its own: PPO's critic where it shares nothing with the policy."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from headrace.algorithms.advantages import gae, terminal_rewards
from headrace.algorithms.base import Advantages, Algorithm, GroupScores, LossSum, PolicyOutput, TokenBatch
from headrace.algorithms.diagnostics import value_sums
from headrace.algorithms.losses import value_clip
from headrace.algorithms.options.value import ValueOptions
from headrace.algorithms.policy_gradient import RETURNS
from headrace.algorithms.reduce import token_mean


class ValueFit(Algorithm):
    """Half the squared error to the returns of gae (https://arxiv.org/abs/1506.02438), mean over tokens.

    Returns and the clip go by the values that a critic node wrote, so they stay as they are however many
    optimizer steps a batch gets. An invalid reward exerts no pull.
    """

    trains_values = True

    def __init__(self, options: ValueOptions) -> None:
        self._options = options

    def needs(self) -> tuple[str, ...]:
        return self._options.needs()

    def outputs(self) -> tuple[str, ...]:
        return ("values",)

    def advantages(self, scores: GroupScores) -> Advantages:
        return np.zeros(len(scores.rewards))

    def targets(self, scores: GroupScores) -> Mapping[str, Sequence[np.ndarray]]:
        masks = scores.column("loss_mask")
        estimates = gae(
            terminal_rewards(scores.rewards, masks),
            scores.column("values"),
            masks,
            gamma=self._options.gamma,
            lam=self._options.gae_lambda,
        )
        return {RETURNS: estimates.returns}

    def loss(self, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
        if policy.values is None:
            raise ValueError(
                "value fits a value model, and the model gave no values; train a token classifier"
            )
        written_T, returns_T = batch.column("values"), batch.column(RETURNS)
        fitted_T = value_clip(policy.values, written_T, returns_T, clip=self._options.value_clip)
        losses_T = fitted_T.where(~batch.rewards.isnan()[batch.sample], torch.zeros_like(fitted_T))
        sums = value_sums(policy.values, losses_T, batch, clip=self._options.value_clip)
        reduced = token_mean(batch)
        return LossSum(
            total=reduced.total(losses_T), count=reduced.count, sums={"tokens": batch.mask.sum(), **sums}
        )
