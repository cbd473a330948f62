"""What an algorithm of the policy-gradient kind makes of a micro-batch, before it is reduced."""

from dataclasses import dataclass

import torch

from headrace.algorithms.losses import Correction


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrogate:
    """Token losses and what the diagnostics say of them; tensors are [T], only `losses` has a gradient."""

    losses: torch.Tensor
    anchor_logprobs: torch.Tensor
    """Of the policy that `ratio` is taken to."""
    ratio: torch.Tensor
    low: torch.Tensor
    """bool, where the lower bound holds the token back."""
    high: torch.Tensor
    """bool, where the upper bound does."""
    correction: Correction | None = None
    """None: the ratio itself says who sampled."""

    @property
    def importance(self) -> torch.Tensor:
        """Unbounded weights for who sampled the tokens."""
        return self.ratio if self.correction is None else self.correction.raw
