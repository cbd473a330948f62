"""Estimators of KL(current || reference) per token, from the sampled token alone.

Source: joschu.net/blog/kl-approx.html. With d = log current - log reference: k1 = d, k2 = d^2 / 2,
k3 = exp(-d) - 1 + d. Differentiated in the loss as they stand: on tokens of the current policy k2 has the
gradient of the divergence in expectation, k1 has none, and k3 that of KL(reference || current).
"""

from collections.abc import Callable

import torch

from headrace.algorithms.losses.ratio import log_ratio

Estimator = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def k1(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """Unbiased, signed, of high variance; [T]."""
    return log_ratio(logprobs, reference_logprobs)


def k2(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """Biased, never negative; [T]."""
    return 0.5 * log_ratio(logprobs, reference_logprobs).square()


def k3(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """Unbiased, never negative; the estimator of GRPO (https://arxiv.org/abs/2402.03300), equation 4; [T]."""
    log_ratio_T = log_ratio(logprobs, reference_logprobs)
    return torch.expm1(-log_ratio_T) + log_ratio_T


ESTIMATORS: dict[str, Estimator] = {"k1": k1, "k2": k2, "k3": k3}
