"""Named reductions: how token losses become one number, as a weighted sum over one global divisor.

Each gives the weight of every token and this micro-batch's share of the divisor. Weights depend on the
token's own sample and group alone and shares add up, so no split of the batch changes the result. Masked
tokens weigh 0 and whatever is fully masked counts 0: numerator and divisor see the same mask.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headrace.algorithms.base import TokenBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """`weights` [T] for the sum; `count`, what to add to the step's divisor."""

    weights: torch.Tensor
    count: float

    def total(self, losses: torch.Tensor) -> torch.Tensor:
        """Weighted sum of `losses` [T]; a masked token adds 0 even where its loss is not finite."""
        return torch.where(self.weights > 0, losses * self.weights, torch.zeros_like(losses)).sum()


def token_mean(batch: TokenBatch) -> Reduction:
    """Every trained token weighs the same (DAPO, https://arxiv.org/abs/2503.14476, section 3.3)."""
    return Reduction(weights=batch.mask, count=float(batch.mask.sum()))


def sequence_mean(batch: TokenBatch) -> Reduction:
    """Mean over samples of each sample's token mean (GRPO, https://arxiv.org/abs/2402.03300, equation 3)."""
    tokens_S = _tokens_by_sample(batch)
    weights_T = batch.mask / tokens_S.clamp(min=1.0)[batch.sample]
    return Reduction(weights=weights_T, count=float((tokens_S > 0).sum()))


def sequence_sum(batch: TokenBatch, *, length: float = 1.0) -> Reduction:
    """Mean over samples of each sample's token sum over the constant `length` (tokens).

    Dr. GRPO (https://arxiv.org/abs/2503.20783), section 3.2; the constant there is the longest answer.
    """
    tokens_S = _tokens_by_sample(batch)
    return Reduction(weights=batch.mask / length, count=float((tokens_S > 0).sum()))


def prompt_mean(batch: TokenBatch) -> Reduction:
    """Mean over prompts of the token mean over all samples of the prompt.

    A group that is split over micro-batches adds to the divisor by its share of tokens.
    """
    group_tokens_S = batch.group_tokens.clamp(min=1.0)
    shares_S = _tokens_by_sample(batch) / group_tokens_S
    return Reduction(weights=batch.mask / group_tokens_S[batch.sample], count=float(shares_S.sum()))


REDUCTIONS: dict[str, Callable[[TokenBatch], Reduction]] = {
    "token_mean": token_mean,
    "sequence_mean": sequence_mean,
    "sequence_sum": sequence_sum,
    "prompt_mean": prompt_mean,
}


def _tokens_by_sample(batch: TokenBatch) -> torch.Tensor:
    return batch.mask.new_zeros(batch.samples).index_add(0, batch.sample, batch.mask)
