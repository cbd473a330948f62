"""Credit of samples that were drawn under different hints of one prompt."""

import numpy as np

from headrace.algorithms.advantages.grouping import (
    assert_one_per_sample,
    joint_ids,
    per_group,
    valid_members,
)

DROPOUT = -1
"""Context id of a sample drawn from the bare prompt."""

CONTEXT_STD_FLOOR = 1e-5


def context_split(
    rewards: np.ndarray, groups: np.ndarray, contexts: np.ndarray, *, inter_weight: float = 1.1
) -> np.ndarray:
    """NudgeRL: what a sample did within its context, plus what its context did within the prompt, whitened.

    A = (r - mean of the context) + inter_weight * (mean of the context - mean of the prompt); a sample of the
    bare prompt (context -1) has r - mean of the prompt; then whitened over the prompt with the population's
    standard deviation plus 1e-5. Follows the published code. `rewards` [B], NaN where invalid; `groups` and
    `contexts` int64 [B]. Returns float64 [B].
    """
    assert_one_per_sample(rewards, groups)
    assert_one_per_sample(rewards, contexts, "contexts")
    split = np.full(len(rewards), np.nan)
    for prompt in valid_members(rewards, groups):
        split[prompt] = rewards[prompt] - rewards[prompt].mean()
    for members in valid_members(rewards, joint_ids(groups, contexts)):
        if contexts[members[0]] != DROPOUT:
            inter = split[members].mean()
            split[members] += (inter_weight - 1.0) * inter
    return per_group(split, groups, lambda a: (a - a.mean()) / (a.std() + CONTEXT_STD_FLOOR))
