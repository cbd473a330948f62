"""ATOD: the loss moves from on-policy distillation to reinforcement as the run goes on.

Loss: a * turn weight * reverse divergence from the teacher + (1 - a) * clipped surrogate, a falling from 1
to 0. A turn is a run of trained tokens: what the environment said between two turns is masked.
"""

from dataclasses import replace

import numpy as np
import torch

from headrace.algorithms.advantages import disagreement_weights
from headrace.algorithms.base import PolicyOutput, TokenBatch
from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.losses import ratio, reverse_kl
from headrace.algorithms.options import AtodOptions
from headrace.algorithms.surrogate import Surrogate


class Atod(ClippedRatio):
    """Annealed distillation with turns weighed by disagreement times the student's uncertainty."""

    def __init__(self, options: AtodOptions) -> None:
        super().__init__(options)
        self._options = options

    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        share, reinforced = self.share(batch.progress), super().surrogate(policy, batch)
        if share == 0.0:
            return reinforced
        teacher_T = batch.column("teacher_logprobs")
        stale_T = ratio(policy.logprobs.detach(), batch.behaviour_logprobs)
        weights_T = stale_T.clamp(max=self._options.weight_high) * self._turn_weights(policy, batch)
        distilled_T = reverse_kl(policy.logprobs, teacher_T, weights_T)
        return replace(reinforced, losses=share * distilled_T + (1.0 - share) * reinforced.losses)

    def share(self, progress: float) -> float:
        """Of the distillation, after that share of the run."""
        until = self._options.distill_until
        return max(0.0, 1.0 - progress / until) if until > 0 else 0.0

    def _turn_weights(self, policy: PolicyOutput, batch: TokenBatch) -> torch.Tensor:
        """[T], mean 1 over the turns of each sample."""
        if np.isinf(self._options.turn_temperature):
            return torch.ones_like(batch.mask)
        if policy.entropy is None:
            raise ValueError("ATOD weighs turns by the policy's entropy, which it did not give")
        turn_T, sample_U = turns(batch)
        distance_T = (batch.column("teacher_logprobs") - policy.logprobs.detach()).abs()
        disagreement_U, uncertainty_U = (
            _means(values, batch.mask, turn_T, len(sample_U))
            for values in (distance_T, policy.entropy.detach())
        )
        cuts = np.flatnonzero(np.diff(sample_U)) + 1
        weights = disagreement_weights(
            np.split(disagreement_U, cuts),
            np.split(uncertainty_U, cuts),
            temperature=self._options.turn_temperature,
        )
        weights_U = torch.from_numpy(np.concatenate([*weights, np.zeros(1)])).to(batch.mask)
        return weights_U[turn_T]


def turns(batch: TokenBatch) -> tuple[torch.Tensor, np.ndarray]:
    """int64 [T], the number of each token's turn, U where masked; int64 [U], the sample of each turn."""
    trained_T = batch.mask > 0
    before_T = torch.cat((trained_T.new_zeros(1), trained_T[:-1]))
    other_T = torch.cat((trained_T.new_ones(1), batch.sample[1:] != batch.sample[:-1]))
    starts_T = trained_T & (~before_T | other_T)
    turn_T = starts_T.long().cumsum(0) - 1
    sample_U = batch.sample[starts_T].cpu().numpy()
    return torch.where(trained_T, turn_T, torch.full_like(turn_T, len(sample_U))), sample_U


def _means(values: torch.Tensor, mask: torch.Tensor, turn: torch.Tensor, turns: int) -> np.ndarray:
    """Of the trained tokens of each turn, float64 [U]."""
    sums_U, tokens_U = (
        torch.zeros(turns + 1, dtype=torch.float64, device=mask.device).index_add(0, turn, part.double())
        for part in (torch.where(mask > 0, values, torch.zeros_like(values)), mask)
    )
    return (sums_U / tokens_U.clamp(min=1.0))[:turns].cpu().numpy()
