"""TreeRL, https://arxiv.org/abs/2506.11902: forks where the policy is unsure, credit from the leaves."""

import numpy as np

from headrace.algorithms.advantages import fork_points, tree_leave_one_out

TOKENS, UNSURE, WORDS, RIGHT = 20, 8, 16, 8
"""Every token but one is certain; half of the words there lead to a right answer, each to its own."""
BUDGET = 100


def logprobs() -> np.ndarray:
    values = np.full(TOKENS, -0.01)
    values[UNSURE] = -np.log(WORDS)
    return values


def distinct_right(words: np.ndarray) -> int:
    return len({int(word) for word in words if word < RIGHT})


def test_forks_at_the_most_surprising_tokens_find_more_right_answers_for_the_same_tokens() -> None:
    (fork,) = fork_points(logprobs(), 1)
    assert fork == UNSURE
    leaves = 1 + (BUDGET - TOKENS) // (TOKENS - int(fork))
    generator = np.random.default_rng(0)
    trees = [distinct_right(generator.integers(0, WORDS, leaves)) for _ in range(500)]
    chains = [distinct_right(generator.integers(0, WORDS, BUDGET // TOKENS)) for _ in range(500)]
    assert np.mean(trees) > 1.2 * np.mean(chains)


def test_credit_points_to_the_branch_whose_leaves_succeed() -> None:
    """Two branches under one stem, leaves right in 3 of 4 and in 1 of 4: by hand.

    Leave-one-out: a right leaf 1 - 3/7 = 4/7, a wrong one -4/7; branch sums 8/7 and -8/7, the stem 0; by step
    the mean to take off is 0, and 4 leaves divide by 2.
    """
    parents = np.array([-1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    rewards = np.array([np.nan] * 3 + [1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    got = tree_leave_one_out(
        rewards, parents, np.zeros(11, dtype=np.int64), np.ones(11, dtype=np.int64), weighting="step"
    )
    assert np.abs(got[:4] - np.array([0.0, 4 / 7, -4 / 7, 4 / 7])).max() < 1e-12
