"""Credit that is fair between tasks: each normalised apart, whatever the scale of its rewards."""

import numpy as np

from headrace.algorithms.advantages.grouping import assert_one_per_sample, is_constant, valid_members


def per_task(advantages: np.ndarray, tasks: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
    """Advantages normalised within each task to mean 0 and standard deviation 1 over its tokens.

    AgentRL (https://arxiv.org/abs/2510.04206), task advantage normalisation. `advantages` [B], NaN where
    invalid; `tasks` int64 [B]; `lengths` [B], trained tokens of each sample, None: every sample counts once.
    Returns float64 [B]; a task whose advantages are all equal gets 0.
    """
    assert_one_per_sample(advantages, tasks, "tasks")
    counts = np.ones(len(advantages)) if lengths is None else lengths.astype(np.float64)
    credits = np.zeros(len(advantages), dtype=np.float64)
    for members in valid_members(advantages, tasks):
        values, weights = advantages[members].astype(np.float64), counts[members]
        if not is_constant(values) and weights.sum() > 0:
            centred = values - (weights * values).sum() / weights.sum()
            deviation = np.sqrt((weights * centred**2).sum() / weights.sum())
            credits[members] = centred / deviation if deviation > 0 else 0.0
    return credits
