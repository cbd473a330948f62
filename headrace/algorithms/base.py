"""What an algorithm is: which columns it needs, how it credits samples, what loss it takes.

Losses are sums over a micro-batch; the trainer divides once by the step's global count, so no
micro-batch, data-parallel or packing split changes the gradient. A sample is never split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch

    from headrace.algorithms.registry import Recipe

T = TypeVar("T")

OUTPUTS = ("entropy", "mean_logprobs", "values")
"""What a loss may ask of the policy besides the log-probabilities of its tokens."""

Advantages = np.ndarray | list[np.ndarray]
"""float64: one credit per sample [B], or one per token, [B] of [length]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutput:
    """What the current policy says of the response tokens of a micro-batch, under the sampling temperature.

    Tensors are [T]. What `outputs()` names carries a gradient; the entropy is there without one all the same.
    """

    logprobs: "torch.Tensor"
    """NaN throughout of a value model, which has none."""
    entropy: "torch.Tensor | None" = None
    """Of the distribution that the token was drawn from, in nats."""
    mean_logprobs: "torch.Tensor | None" = None
    """Mean over the vocabulary of its log-probabilities."""
    values: "torch.Tensor | None" = None
    """Of a value head, or of a value model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatch:
    """Response tokens of a micro-batch, flattened over samples: tensors are [T] unless said otherwise.

    Three log-probabilities are kept apart: `behaviour` (at sampling), `proximal` (at the start of the
    update), and the current one, which the loss receives beside this batch.
    """

    behaviour_logprobs: "torch.Tensor"
    """NaN throughout where a value model is trained, which reads none."""
    proximal_logprobs: "torch.Tensor | None" = None
    """None: nobody wrote them; the step then takes one update, which starts at the current policy."""
    reference_logprobs: "torch.Tensor | None" = None
    """Under the initial weights; None: the run has no reference."""
    columns: "Mapping[str, torch.Tensor]" = field(default_factory=dict)
    """Further columns that the algorithm's `needs()` or `prepare()` names."""
    advantages: "torch.Tensor"
    mask: "torch.Tensor"
    """1 where the policy made the token and it is trained on, else 0; same float type as log-probs."""
    sample: "torch.Tensor"
    """int64, index of the token's sample in the micro-batch, non-decreasing."""
    samples: int
    group: "torch.Tensor"
    """[samples], int64, the same number for samples of one prompt and for no others of the micro-batch."""
    rewards: "torch.Tensor"
    """[samples], NaN where invalid."""
    group_tokens: "torch.Tensor"
    """[samples], trained tokens of each sample's whole group, also where the micro-batch holds part of it."""
    progress: float = 0.0
    """Share of the run's steps that were taken before this one, in [0, 1), for what is annealed."""

    def column(self, name: str) -> "torch.Tensor":
        """[T]. Raises ValueError where nobody wrote it."""
        return _column(self.columns, name)


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
    """Response tokens of each sample, trained or not."""
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """One entry a sample, by token an array [length]: `logprobs` (at sampling), `loss_mask`, those of
    `needs()`, and `values` where `outputs()` names them: the head's, before the update."""

    def column(self, name: str) -> Sequence[Any]:
        """[B]. Raises ValueError where nobody wrote it."""
        return _column(self.columns, name)


def _column(columns: Mapping[str, T], name: str) -> T:
    if name not in columns:
        raise ValueError(
            f"the batch has no {name}; it has {', '.join(columns) or 'no further columns'}: "
            "name it in the algorithm's needs(), and add the node that writes it to the graph"
        )
    return columns[name]


class Algorithm(Protocol):
    """Subclass it for the defaults; `advantages` and `loss` are what an algorithm must say."""

    trains_values: bool = False
    """Whether the model is a value model, a token classifier with one label: `outputs()` is then `values`."""

    recipe: "Recipe | None" = None
    """What `registry.build` made it of, for another process to make the same; None: something else did."""

    needs_full_batch: bool = False
    """Whether `advantages` or `prepare` must see the step's whole batch at once. Gradients then wait for
    its last group; else each call sees whole groups as they arrive."""

    def needs(self) -> tuple[str, ...]:
        """Columns it reads beyond prompt_ids, response_ids, logprobs, loss_mask and reward."""
        return ()

    def outputs(self) -> tuple[str, ...]:
        """Names in `OUTPUTS` that the loss differentiates."""
        return ()

    def advantages(self, scores: GroupScores) -> Advantages:
        """Credit of each sample or token."""
        ...

    def targets(self, scores: GroupScores) -> Mapping[str, Sequence[np.ndarray]]:
        """Further columns that `loss` reads, made of the scores as the advantages are: [B] of [length]."""
        return {}

    prepares: bool = False
    """Whether `prepare` is called; it costs one more forward pass."""

    def prepare(self, policy: PolicyOutput, batch: TokenBatch) -> "Mapping[str, torch.Tensor]":
        """Decisions that must come before any gradient, as [T] columns that `loss` then reads.

        Sees the current policy without gradient, over whole groups (with `needs_full_batch`: the batch).
        """
        return {}

    def loss(self, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
        """Of one micro-batch."""
        ...
