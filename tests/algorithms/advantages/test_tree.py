import numpy as np
import pytest

from headrace.algorithms.advantages import (
    along_paths,
    fork_points,
    refinement_zscore,
    subtree_credit,
    tree_leave_one_out,
    widest,
)

NAN = float("nan")
PARENTS = np.array([-1, 0, 0, -1])
GROUPS = np.zeros(4, dtype=np.int64)
TOKENS = np.array([2, 1, 3, 4])


def test_leave_one_out_over_a_tree_by_hand_weighted_by_tokens() -> None:
    got = tree_leave_one_out(np.array([NAN, 1.0, 0.0, 0.0]), PARENTS, GROUPS, TOKENS)
    assert got.tolist() == pytest.approx([0.75 / 2**0.5, 1.125, -0.375, -0.375], abs=1e-15)


def test_leave_one_out_over_a_tree_by_hand_weighted_by_steps() -> None:
    got = tree_leave_one_out(np.array([NAN, 1.0, 0.0, 0.0]), PARENTS, GROUPS, TOKENS, weighting="step")
    assert got.tolist() == pytest.approx([0.3 / 2**0.5, 0.9, -0.6, -0.6], abs=1e-15)


def test_an_invalid_leaf_counts_nowhere() -> None:
    got = tree_leave_one_out(np.array([NAN, 1.0, NAN, 0.0]), PARENTS, GROUPS, TOKENS, weighting="step")
    assert got.tolist() == pytest.approx([1 - 1 / 3, 1 - 1 / 3, 0.0, -1 - 1 / 3], abs=1e-15)


def test_trees_of_two_prompts_do_not_mix_and_a_tree_of_equal_leaves_is_zero() -> None:
    parents = np.array([-1, -1, -1, 2, 2])
    got = tree_leave_one_out(
        np.array([1.0, 0.0, NAN, 0.1, 0.30000000000000004 - 0.2]),
        parents,
        np.array([5, 5, 6, 6, 6]),
        np.ones(5, dtype=np.int64),
    )
    assert got.tolist() == [1.0, -1.0, 0.0, 0.0, 0.0]


def test_a_chain_carries_the_credit_of_each_node_on_its_tokens() -> None:
    chains = along_paths(np.array([0.5, 1.0, -1.0, -2.0]), PARENTS, TOKENS, [1, 3])
    assert [chain.tolist() for chain in chains] == [[0.5, 0.5, 1.0], [-2.0] * 4]


def test_later_refinements_credit_the_attempts_before_them() -> None:
    rewards = np.array([0.2, 1.0, 0.4, 1.0, 0.0])
    parents = np.array([-1, -1, 0, 0, 2])
    assert subtree_credit(rewards, parents, how="max").tolist() == [1.0, 1.0, 0.4, 1.0, 0.0]
    assert subtree_credit(rewards, parents, how="mean").tolist() == pytest.approx([0.4, 1.0, 0.2, 1.0, 0.0])


def test_an_invalid_attempt_is_judged_by_its_refinements_alone() -> None:
    rewards, parents = np.array([NAN, 1.0, NAN]), np.array([-1, 0, -1])
    for how in ("max", "mean"):
        assert subtree_credit(rewards, parents, how=how)[:2].tolist() == [1.0, 1.0]
        assert np.isnan(subtree_credit(rewards, parents, how=how)[2])


def test_attempts_are_compared_with_those_that_saw_the_same_feedback() -> None:
    rewards = np.array([0.2, 1.0, 0.4, 1.0, 0.0])
    parents = np.array([-1, -1, 0, 0, 2])
    got = refinement_zscore(rewards, parents, np.zeros(5, dtype=np.int64))
    pair = 0.3 / (0.18**0.5 + 1e-4)
    assert got.tolist() == pytest.approx([0.0, 0.0, -pair, pair, 0.0], abs=1e-12)


def test_pruning_keeps_the_values_that_spread_furthest() -> None:
    values = np.array([1.0, 10.0, NAN, 0.0, 2.0])
    assert widest(values, 2).tolist() == [1, 3]
    assert widest(values, 3).tolist() == [0, 1, 3]
    assert widest(values, 9).tolist() == [0, 1, 3, 4]
    assert widest(values, 0).tolist() == []


def test_a_parent_behind_its_child_is_refused() -> None:
    with pytest.raises(ValueError, match="node 0 has parent 1; a parent must come before its children"):
        subtree_credit(np.zeros(2), np.array([1, -1]))
    with pytest.raises(ValueError, match=r"rewards \(3,\), parents \(2,\)"):
        subtree_credit(np.zeros(3), np.array([-1, 0]))


def test_a_chain_forks_at_its_most_surprising_tokens() -> None:
    assert fork_points(np.array([-0.1, -2.0, -0.5, -3.0]), 2).tolist() == [1, 3]
    assert fork_points(np.array([-0.1]), 5).tolist() == [0]
