"""What a step has learned of its prompts, for whoever decides what is drawn next and how often."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What a step has learned of its prompts: one entry per row, arrays are [B]."""

    prompts: np.ndarray
    """int64, index of the row's prompt in the data set."""
    rewards: np.ndarray
    """float64, NaN where invalid."""
    advantages: np.ndarray | None = None
    """float64; of a method with one credit per token, the row's mean. None: the method has none."""
    log_partitions: np.ndarray | None = None
    """float64, log Z of the row's prompt as the loss has fitted it. None: the loss fits none."""
    divergences: np.ndarray | None = None
    """float64, log(policy / reference) of the row's answer, summed over tokens. None: no reference."""


def pass_rates(feedback: Feedback, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum of valid rewards and their number by prompt: float64 [size], int64 [size]."""
    valid = ~np.isnan(feedback.rewards)
    prompts = feedback.prompts[valid]
    sums = np.bincount(prompts, weights=feedback.rewards[valid], minlength=size)
    return sums, np.bincount(prompts, minlength=size)
