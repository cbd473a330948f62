"""Credit of the nodes of trees of samples: from the rewards of leaves to the segments above them.

A tree is arrays with one entry per node: `parents` int64 [N] (index of the node above, -1 for a first
segment; a parent comes before its children), `groups` int64 [N] (the prompt's), `tokens` int64 [N] (length of
the node's own segment). Several first segments of one prompt share its group. An invalid leaf (NaN) counts
nowhere.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from headrace.algorithms.advantages.group import group_zscore, leave_one_out
from headrace.algorithms.advantages.grouping import joint_ids


def tree_leave_one_out(
    rewards: np.ndarray,
    parents: np.ndarray,
    groups: np.ndarray,
    tokens: np.ndarray,
    *,
    weighting: Literal["token", "step"] = "token",
) -> np.ndarray:
    """TreeRL: leave-one-out rewards of leaves summed upwards, centred, over the root of the leaves below.

    https://arxiv.org/abs/2506.11902, as its published code has it: A(n) = sum over leaves l below n of
    (r_l - mean of the tree's other leaves), with L(n) leaves below; then A(n) - mu * L(n), where mu is the
    sum of w * A over that of w * L over the tree's nodes (w: the node's tokens, or 1 by step); then over
    sqrt(L(n)), since a shared segment is trained once in each chain through it.

    `rewards` float64 [N] is read at leaves alone. Returns float64 [N]; 0 where no valid leaf lies below, and
    in a tree whose leaves are all equal.
    """
    _assert_tree(parents, rewards=rewards, groups=groups, tokens=tokens)
    is_leaf = np.ones(len(parents), dtype=bool)
    is_leaf[parents[parents >= 0]] = False
    credits = np.zeros(len(parents), dtype=np.float64)
    credits[is_leaf] = leave_one_out(rewards[is_leaf], groups[is_leaf])
    leaves = _sum_upwards(is_leaf & ~np.isnan(rewards), parents)
    sums = _sum_upwards(credits, parents)
    weights = tokens.astype(np.float64) if weighting == "token" else np.ones(len(parents))
    for group in np.unique(groups):
        nodes = groups == group
        weighted = (weights[nodes] * leaves[nodes]).sum()
        if weighted > 0:
            sums[nodes] -= (weights[nodes] * sums[nodes]).sum() / weighted * leaves[nodes]
    return sums / np.sqrt(np.maximum(leaves, 1.0))


def along_paths(
    node_credits: np.ndarray, parents: np.ndarray, tokens: np.ndarray, leaves: Sequence[int]
) -> list[np.ndarray]:
    """Credit of each token of the chains from a first segment down to `leaves`: the credit of its node.

    Returns ragged float64, one array [tokens of the whole chain] per leaf.
    """
    chains = []
    for leaf in leaves:
        path = [leaf]
        while parents[path[-1]] >= 0:
            path.append(int(parents[path[-1]]))
        chain = path[::-1]
        chains.append(np.repeat(node_credits[chain], tokens[chain]))
    return chains


def subtree_credit(
    rewards: np.ndarray, parents: np.ndarray, *, how: Literal["max", "mean"] = "max"
) -> np.ndarray:
    """Reward of each attempt as its refinements make it: the best, or the mean, of the subtree it heads.

    MURPHY (https://arxiv.org/abs/2511.07833): MaRS is "max", MeRS is "mean"; a subtree holds the attempt
    itself. `rewards` float64 [N], one per attempt, NaN where invalid. Returns float64 [N], NaN where the
    whole subtree is invalid.
    """
    _assert_tree(parents, rewards=rewards)
    valid = ~np.isnan(rewards)
    counts = _sum_upwards(valid, parents)
    if how == "mean":
        totals = _sum_upwards(np.where(valid, rewards, 0.0), parents)
    else:
        totals = np.where(valid, rewards, -np.inf)
        for node in range(len(parents) - 1, -1, -1):
            if parents[node] >= 0:
                totals[parents[node]] = max(totals[parents[node]], totals[node])
    divisor = np.maximum(counts, 1.0) if how == "mean" else 1.0
    return np.where(counts > 0, totals / divisor, np.nan)


def refinement_zscore(
    rewards: np.ndarray,
    parents: np.ndarray,
    groups: np.ndarray,
    *,
    how: Literal["max", "mean"] = "max",
) -> np.ndarray:
    """MURPHY's credit: `subtree_credit`, normalised among attempts that answer the same context.

    Attempts share a context when they have the same parent, or none and the same prompt. Arguments as in
    `subtree_credit`, `groups` int64 [N]. Returns float64 [N].
    """
    _assert_tree(parents, rewards=rewards, groups=groups)
    return group_zscore(subtree_credit(rewards, parents, how=how), joint_ids(groups, parents))


def fork_points(logprobs: np.ndarray, number: int) -> np.ndarray:
    """Tokens to fork a chain at: the `number` with the lowest log-probability, int64, ascending.

    TreeRL's branching: -log p of the token drawn stands for the policy's uncertainty. `logprobs` [length].
    """
    return np.sort(np.argsort(logprobs, kind="stable")[:number])


def widest(values: np.ndarray, keep: int) -> np.ndarray:
    """Which `keep` of the values [n] spread furthest: the subset of largest variance, ascending indices.

    MURPHY's pruning, and the down-sampling of PODS (https://arxiv.org/abs/2504.13818), whose theorem makes
    it some of the smallest and the rest of the largest. NaN is never kept. Ties keep the most from below.
    """
    order = np.argsort(values, kind="stable")[: int((~np.isnan(values)).sum())]
    if keep >= len(order):
        return np.sort(order)
    splits = [
        np.concatenate([order[:low], order[len(order) - (keep - low) :]]) for low in range(keep, -1, -1)
    ]
    return np.sort(max(splits, key=lambda chosen: float(values[chosen].var()) if len(chosen) else 0.0))


def _sum_upwards(values: np.ndarray, parents: np.ndarray) -> np.ndarray:
    sums = values.astype(np.float64)
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] >= 0:
            sums[parents[node]] += sums[node]
    return sums


def _assert_tree(parents: np.ndarray, **columns: np.ndarray) -> None:
    shapes = {name: column.shape for name, column in columns.items()} | {"parents": parents.shape}
    if parents.ndim != 1 or len(set(shapes.values())) > 1:
        got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"a tree's arrays must be [N] with one entry per node, got {got}")
    late = np.flatnonzero((parents >= np.arange(len(parents))) | (parents < -1))
    if len(late):
        node = int(late[0])
        raise ValueError(
            f"node {node} has parent {parents[node]}; a parent must come before its children, "
            "and -1 marks a first segment: sort the nodes by depth"
        )
