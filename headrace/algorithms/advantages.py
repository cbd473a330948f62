"""Credit of samples from the rewards of their group; float64, by group id, never across groups.

An invalid reward (NaN) enters no statistic and is credited 0, so a bad verifier cannot push the policy.
"""

import numpy as np

STD_FLOOR = 1e-4
"""Added to the standard deviation, as the published implementations of GRPO do."""

STD_TOLERANCE = 1e-8
"""Relative spread below which the rewards of a group count as equal: floating noise is no signal."""


def group_zscore(rewards: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Rewards normalised within each group: (r - mean) / (std + 1e-4), sample standard deviation.

    DeepSeekMath (https://arxiv.org/abs/2402.03300), section 4.1.2. Deviations: the floor above; groups of
    equal rewards and groups with fewer than two valid rewards get exactly 0.

    `rewards` float64 [B], NaN where invalid; `groups` int64 [B], in any order. Returns float64 [B].
    """
    _assert_one_per_sample(rewards, groups)
    advantages = np.zeros(len(rewards), dtype=np.float64)
    for members in _valid_members(rewards, groups):
        values = rewards[members].astype(np.float64)
        if not _is_constant(values):
            advantages[members] = (values - values.mean()) / (values.std(ddof=1) + STD_FLOOR)
    return advantages


def zero_std_frac(rewards: np.ndarray, groups: np.ndarray) -> float:
    """Share of groups without a signal: equal rewards, a single valid one, or none. 0 for no groups."""
    _assert_one_per_sample(rewards, groups)
    number = len(np.unique(groups))
    telling = sum(not _is_constant(rewards[members]) for members in _valid_members(rewards, groups))
    return (number - telling) / number if number else 0.0


def _valid_members(rewards: np.ndarray, groups: np.ndarray) -> list[np.ndarray]:
    valid = np.flatnonzero(~np.isnan(rewards))
    order = valid[np.argsort(groups[valid], kind="stable")]
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, starts) if len(order) else []


def _is_constant(values: np.ndarray) -> bool:
    if len(values) < 2:
        return True
    scale = max(1.0, float(np.abs(values).max()))
    return float(values.std(ddof=1)) <= STD_TOLERANCE * scale


def _assert_one_per_sample(rewards: np.ndarray, groups: np.ndarray) -> None:
    if rewards.ndim != 1 or rewards.shape != groups.shape:
        raise ValueError(
            f"rewards and groups must be [B] of one length, got {rewards.shape} and {groups.shape}; "
            "give one reward and one group id per sample"
        )
