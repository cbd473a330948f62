"""Ratios of probabilities, from clamped differences of log-probabilities."""

import torch

from headrace.algorithms.shapes import assert_tokens

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to +-20 before `exp`, so that no ratio overflows; beyond, the gradient is 0."""


def log_ratio(logprobs: torch.Tensor, anchor_logprobs: torch.Tensor) -> torch.Tensor:
    """logprobs - anchor, clamped to +-20; all [T]."""
    assert_tokens(logprobs=logprobs, anchor_logprobs=anchor_logprobs)
    return clamped(logprobs - anchor_logprobs)


def ratio(logprobs: torch.Tensor, anchor_logprobs: torch.Tensor) -> torch.Tensor:
    """exp(logprobs - anchor), its exponent clamped to +-20; all [T]."""
    return torch.exp(log_ratio(logprobs, anchor_logprobs))


def clamped(exponent: torch.Tensor) -> torch.Tensor:
    return exponent.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
