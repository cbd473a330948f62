"""What an algorithm is: which columns it needs, how it credits a group, what loss it takes.

Losses are sums over a micro-batch; the trainer divides once by the step's global count, so no
micro-batch, data-parallel or packing split changes the gradient.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatch:
    """Response tokens of a micro-batch, flattened over samples: tensors are [T] unless said otherwise.

    Three log-probabilities are kept apart: `behaviour` (at sampling), `proximal` (at the start of the
    update; None: same as behaviour), and the current one, which the loss receives beside this batch.
    """

    behaviour_logprobs: "torch.Tensor"
    proximal_logprobs: "torch.Tensor | None" = None
    reference_logprobs: "torch.Tensor | None" = None
    """Under the initial weights; None: the run has no reference."""
    advantages: "torch.Tensor"
    mask: "torch.Tensor"
    """1 where the policy made the token and it is trained on, else 0; same float type as log-probs."""
    sample: "torch.Tensor"
    """int64, index of the token's sample in the micro-batch, non-decreasing."""
    samples: int
    group_tokens: "torch.Tensor"
    """[samples], trained tokens of each sample's whole group, also where the micro-batch holds part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSum:
    """A loss as a sum and what it is to be divided by once per step, with diagnostics."""

    total: "torch.Tensor"
    """Scalar, differentiable."""
    count: float
    """This micro-batch's share of the step's divisor (tokens or samples, by the reduction)."""
    sums: "Mapping[str, torch.Tensor]" = field(default_factory=dict)
    """Detached scalars, summed over trained tokens; `tokens` is their number."""
    maxima: "Mapping[str, torch.Tensor]" = field(default_factory=dict)
    """Detached scalars of which the step's largest is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScores:
    """What an algorithm sees of a batch of samples to credit them; arrays are [B]."""

    groups: np.ndarray
    rewards: np.ndarray
    """float64; NaN marks an invalid reward, which enters no statistic and gets advantage 0."""
    lengths: np.ndarray


class Algorithm(Protocol):
    needs_full_group: bool
    reduction: str
    """How token losses become one number: a name in `reduce.REDUCTIONS`."""

    def needs(self) -> tuple[str, ...]:
        """Columns the loss reads beyond prompt_ids, response_ids, logprobs, loss_mask and reward."""
        ...

    def advantages(self, scores: GroupScores) -> np.ndarray:
        """float64 [B]: one credit per sample, normalised within groups only."""
        ...

    def loss(self, logprobs: "torch.Tensor", batch: TokenBatch) -> LossSum:
        """`logprobs`: [T], current log-probabilities of the response tokens under the temperature."""
        ...
