"""Group relative policy optimisation: group z-score, clipped surrogate, optional divergence in the loss.

DeepSeekMath (https://arxiv.org/abs/2402.03300) with the asymmetric clip and the token mean of DAPO
(https://arxiv.org/abs/2503.14476). The ratio is taken to the proximal policy where one is given, and then
weighted for who sampled; else to the behaviour policy.
"""

from functools import partial

import numpy as np
import torch

from headrace.algorithms.advantages import group_zscore
from headrace.algorithms.base import GroupScores, LossSum, TokenBatch
from headrace.algorithms.diagnostics import surrogate_maxima, surrogate_sums
from headrace.algorithms.kl import ESTIMATORS
from headrace.algorithms.losses import behaviour_weights, ppo_clip
from headrace.algorithms.reduce import REDUCTIONS, sequence_sum


class Grpo:
    needs_full_group = True

    def __init__(
        self,
        *,
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        kl_coef: float = 0.0,
        kl_estimator: str = "k3",
        reduction: str = "token_mean",
        sequence_length: float = 1.0,
    ) -> None:
        """`sequence_length`, in tokens, is the constant that `sequence_sum` divides by.

        Raises ValueError for unknown names and values out of range.
        """
        _check_range("clip_low", clip_low, 0.0, 1.0)
        _check_range("clip_high", clip_high, 0.0, float("inf"))
        _check_range("kl_coef", kl_coef, 0.0, float("inf"))
        _check_name("kl_estimator", kl_estimator, tuple(ESTIMATORS))
        _check_name("reduction", reduction, tuple(REDUCTIONS))
        self.reduction = reduction
        self._clip = {"clip_low": clip_low, "clip_high": clip_high}
        self._kl_coef = kl_coef
        self._kl = ESTIMATORS[kl_estimator]
        over_constant = partial(sequence_sum, length=sequence_length)
        self._reduce = over_constant if reduction == "sequence_sum" else REDUCTIONS[reduction]

    def needs(self) -> tuple[str, ...]:
        return ("reference_logprobs",) if self._kl_coef > 0 else ()

    def advantages(self, scores: GroupScores) -> np.ndarray:
        return group_zscore(scores.rewards, scores.groups)

    def loss(self, logprobs: torch.Tensor, batch: TokenBatch) -> LossSum:
        losses_T = self._surrogate(logprobs, batch)
        sums = surrogate_sums(logprobs, losses_T, batch, **self._clip)
        if self._kl_coef > 0:
            losses_T = losses_T + self._kl_coef * self._divergence(logprobs, batch)
        reduced = self._reduce(batch)
        return LossSum(
            total=reduced.total(losses_T),
            count=reduced.count,
            sums=sums,
            maxima=surrogate_maxima(logprobs, batch),
        )

    def _surrogate(self, logprobs: torch.Tensor, batch: TokenBatch) -> torch.Tensor:
        if batch.proximal_logprobs is None:
            return ppo_clip(logprobs, batch.behaviour_logprobs, batch.advantages, **self._clip)
        weights_T = behaviour_weights(batch.proximal_logprobs, batch.behaviour_logprobs)
        return weights_T * ppo_clip(logprobs, batch.proximal_logprobs, batch.advantages, **self._clip)

    def _divergence(self, logprobs: torch.Tensor, batch: TokenBatch) -> torch.Tensor:
        if batch.reference_logprobs is None:
            raise ValueError(
                f"kl_coef is {self._kl_coef} but the batch has no reference_logprobs; "
                "add a reference node to the graph, or set kl_coef: 0"
            )
        return self._kl(logprobs, batch.reference_logprobs)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must lie between {low} and {high}")


def _check_name(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
