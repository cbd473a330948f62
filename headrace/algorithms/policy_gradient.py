"""What algorithms that weigh log-probabilities by advantages share: credit, divergence, entropy, reduction.

A subclass says what a token's surrogate loss is; nothing else differs between them.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

from headrace.algorithms.base import Advantages, Algorithm, GroupScores, LossSum, PolicyOutput, TokenBatch
from headrace.algorithms.credit import by_path, credit, returns
from headrace.algorithms.diagnostics import surrogate_maxima, surrogate_sums, value_sums
from headrace.algorithms.kl import ESTIMATORS
from headrace.algorithms.losses import value_clip
from headrace.algorithms.options.policy_gradient import PolicyGradient
from headrace.algorithms.reduce import REDUCTIONS, Reduction, sequence_sum
from headrace.algorithms.surrogate import Surrogate
from headrace.algorithms.updates.annealed import at

RETURNS = "returns"
"""Column of what a value head is fitted to."""


class PolicyGradientAlgorithm(Algorithm):
    """Loss: surrogate + kl_coef * divergence - entropy_coef * entropy + value_coef * value loss, all by one
    reduction. The value loss is there where a head of the trainer's gives the values of gae."""

    def __init__(self, options: PolicyGradient) -> None:
        """What is annealed in `options` has its first value.

        Raises ValueError where sequence_sum lacks the length that it divides by.
        """
        self._credit = options
        self._own_credit = by_path(options)
        self._kl = ESTIMATORS[options.kl_estimator]
        self._kl_coef = at(options.kl_coef, 0) if options.kl_in == "loss" else 0.0
        self._entropy_coef = at(options.entropy_coef, 0)
        self._value_coef = at(options.value_coef, 0)
        self._reduce = _reduction(options)
        self.needs_full_batch = options.credits_batch

    @abstractmethod
    def surrogate(self, policy: PolicyOutput, batch: TokenBatch) -> Surrogate:
        """Of every token of the batch, the masked ones included."""

    def needs(self) -> tuple[str, ...]:
        return self._credit.needs()

    def outputs(self) -> tuple[str, ...]:
        entropy = ("entropy",) if self._entropy_coef > 0 else ()
        return entropy + (("values",) if self._credit.values_by_head else ())

    def advantages(self, scores: GroupScores) -> Advantages:
        return credit(self._credit, scores, self._own_credit)

    def targets(self, scores: GroupScores) -> Mapping[str, Sequence[np.ndarray]]:
        return {RETURNS: returns(self._credit, scores)} if self._credit.values_by_head else {}

    def loss(self, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
        surrogate = self.surrogate(policy, batch)
        losses_T, sums = surrogate.losses, surrogate_sums(policy, surrogate, batch)
        if self._kl_coef > 0:
            losses_T = losses_T + self._kl_coef * self._divergence(policy, batch)
        if self._entropy_coef > 0:
            losses_T = losses_T - self._entropy_coef * _entropy(policy)
        if self._credit.values_by_head:
            values_T, fitted_T = self._value_loss(policy, batch)
            losses_T = losses_T + self._value_coef * fitted_T
            sums |= value_sums(values_T, fitted_T, batch, clip=self._credit.value_clip)
        reduced = self._reduce(batch)
        return LossSum(
            total=reduced.total(losses_T),
            count=reduced.count,
            sums=sums,
            maxima=surrogate_maxima(surrogate, batch),
        )

    def _value_loss(self, policy: PolicyOutput, batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The head's values and their loss, both [T]."""
        if policy.values is None:
            raise ValueError(
                "gae takes the values of a head, which the policy did not give; name it in outputs()"
            )
        return policy.values, value_clip(
            policy.values, batch.column("values"), batch.column(RETURNS), clip=self._credit.value_clip
        )

    def _divergence(self, policy: PolicyOutput, batch: TokenBatch) -> torch.Tensor:
        if batch.reference_logprobs is None:
            raise ValueError(
                f"kl_coef is {self._kl_coef} but the batch has no reference_logprobs; "
                "add a reference node to the graph, or set kl_coef: 0"
            )
        return self._kl(policy.logprobs, batch.reference_logprobs)


def proximal_logprobs(policy: PolicyOutput, batch: TokenBatch) -> torch.Tensor:
    """[T], of the policy at the start of the update, which is the current one before the first update."""
    return policy.logprobs.detach() if batch.proximal_logprobs is None else batch.proximal_logprobs


def _entropy(policy: PolicyOutput) -> torch.Tensor:
    if policy.entropy is None:
        raise ValueError("entropy_coef is above 0 but the policy gave no entropy; name it in outputs()")
    return policy.entropy


def _reduction(options: PolicyGradient) -> Callable[[TokenBatch], Reduction]:
    if options.reduction != "sequence_sum":
        return REDUCTIONS[options.reduction]
    if options.sequence_length is None:
        raise ValueError("sequence_sum divides by sequence_length, which is None; give the longest answer")
    return partial(sequence_sum, length=options.sequence_length)
