"""Which samples share statistics: valid ones of one id, in any order of the batch, never across ids.

Every statistic of this package goes through here, so that an invalid reward (NaN) enters none and floating
noise between equal rewards never counts as a signal.
"""

from collections.abc import Callable

import numpy as np

STD_TOLERANCE = 1e-8
"""Relative spread below which values count as equal: floating noise is no signal."""


def per_group(
    values: np.ndarray, groups: np.ndarray, credit: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """`credit` of the valid values of each group, float64 [n] to [n], put back in the order of the batch.

    Groups of equal values, and those with fewer than two valid ones, get exactly 0; so do invalid samples.
    `values` [B], NaN where invalid; `groups` int64 [B]. Returns float64 [B].
    """
    assert_one_per_sample(values, groups)
    credits = np.zeros(len(values), dtype=np.float64)
    for members in valid_members(values, groups):
        chosen = values[members].astype(np.float64)
        if not is_constant(chosen):
            credits[members] = credit(chosen)
    return credits


def valid_members(values: np.ndarray, groups: np.ndarray) -> list[np.ndarray]:
    """Indices of the valid values of each group, one int64 [n] per group that has any, by ascending id."""
    valid = np.flatnonzero(~np.isnan(values))
    order = valid[np.argsort(groups[valid], kind="stable")]
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, starts) if len(order) else []


def is_constant(values: np.ndarray) -> bool:
    """Whether valid values [n] carry no signal: fewer than two, or equal up to floating noise."""
    if len(values) < 2:
        return True
    scale = max(1.0, float(np.abs(values).max()))
    return float(values.std(ddof=1)) <= STD_TOLERANCE * scale


def joint_ids(*columns: np.ndarray) -> np.ndarray:
    """One id per distinct combination of the columns, each int64 [B]. Returns int64 [B]."""
    if not len(columns[0]):
        return np.zeros(0, dtype=np.int64)
    return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def assert_one_per_sample(rewards: np.ndarray, groups: np.ndarray, name: str = "groups") -> None:
    """Raises ValueError unless both are [B] of one length."""
    if rewards.ndim != 1 or rewards.shape != groups.shape:
        raise ValueError(
            f"rewards and {name} must be [B] of one length, got {rewards.shape} and {groups.shape}; "
            f"give one reward and one entry of {name} per sample"
        )
