"""Credit of samples from the rewards of their group; float64, by group id, never across groups.

An invalid reward (NaN) enters no statistic and is credited 0, so a bad verifier cannot push the policy.
"""

import numpy as np

from headrace.algorithms.advantages.grouping import (
    assert_one_per_sample,
    is_constant,
    per_group,
    valid_members,
)

STD_FLOOR = 1e-4
"""Added to the standard deviation, as the published implementations of GRPO do."""


def group_zscore(rewards: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Rewards normalised within each group: (r - mean) / (std + 1e-4), sample standard deviation.

    DeepSeekMath (https://arxiv.org/abs/2402.03300), section 4.1.2. Deviations: the floor above; groups of
    equal rewards and groups with fewer than two valid rewards get exactly 0.

    `rewards` float64 [B], NaN where invalid; `groups` int64 [B], in any order. Returns float64 [B].
    """
    return per_group(rewards, groups, lambda r: (r - r.mean()) / (r.std(ddof=1) + STD_FLOOR))


def group_mean(rewards: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Rewards less the mean of their group, without a division: the credit of Dr. GRPO.

    "Understanding R1-Zero-like training" (https://arxiv.org/abs/2503.20783), section 3.2. Arguments, result
    and deviations as in `group_zscore`.
    """
    return per_group(rewards, groups, lambda r: r - r.mean())


def leave_one_out(rewards: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Rewards less the mean of the other rewards of their group: RLOO.

    "Back to basics" (https://arxiv.org/abs/2402.14740), equation 8. Arguments, result and deviations as in
    `group_zscore`.
    """
    return per_group(rewards, groups, lambda r: (r - r.mean()) * len(r) / (len(r) - 1))


def batch_zscore(rewards: np.ndarray) -> np.ndarray:
    """Rewards normalised over the whole batch: (r - mean) / (std + 1e-4), sample standard deviation.

    "Tricks or traps?" (https://arxiv.org/abs/2508.08221) compares it with the group's. `rewards` float64
    [B], NaN where invalid. Returns float64 [B]; a batch of equal rewards gets exactly 0.
    """
    return group_zscore(rewards, np.zeros(len(rewards), dtype=np.int64))


def group_mean_batch_std(rewards: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Rewards less the mean of their group, over the standard deviation of the batch's rewards plus 1e-4.

    Lite PPO, "Tricks or traps?" (https://arxiv.org/abs/2508.08221), section 5. A batch of rewards that are
    all equal gets 0. Arguments, result and deviations as in `group_zscore`.
    """
    centred = group_mean(rewards, groups)
    valid = rewards[~np.isnan(rewards)].astype(np.float64)
    return centred if is_constant(valid) else centred / (valid.std(ddof=1) + STD_FLOOR)


def zero_std_frac(rewards: np.ndarray, groups: np.ndarray) -> float:
    """Share of groups without a signal: equal rewards, a single valid one, or none. 0 for no groups."""
    assert_one_per_sample(rewards, groups)
    number = len(np.unique(groups))
    telling = sum(not is_constant(rewards[members]) for members in valid_members(rewards, groups))
    return (number - telling) / number if number else 0.0


def singletons(rewards: np.ndarray, groups: np.ndarray) -> int:
    """Number of groups left with a single valid reward, which has nothing to be compared with."""
    assert_one_per_sample(rewards, groups)
    return sum(len(members) == 1 for members in valid_members(rewards, groups))
