from collections.abc import Sequence

import numpy as np
import pytest

from headrace.algorithms.advantages import (
    STRUCTURED,
    ContextSplit,
    Refinement,
    StepLevel,
    TreeLeaveOneOut,
    TurnLevel,
)
from headrace.algorithms.base import GroupScores

NAN = float("nan")
PAIR = 0.5 / (0.5**0.5 + 1e-4)


Column = Sequence[Sequence[float]] | Sequence[int]


def scores(rewards: list[float], groups: list[int] | None = None, **columns: Column) -> GroupScores:
    return GroupScores(
        groups=np.zeros(len(rewards), dtype=np.int64) if groups is None else np.array(groups),
        rewards=np.array(rewards),
        lengths=np.zeros(len(rewards), dtype=np.int64),
        columns={name: [np.array(row) for row in rows] for name, rows in columns.items()},
    )


def test_rows_that_share_a_segment_are_credited_as_a_tree() -> None:
    got = TreeLeaveOneOut()(
        scores(
            [1.0, 0.0, 0.0],
            nodes=[[10, 10, 11], [10, 10, 12, 12, 12], [13, 13, 13, 13]],
            loss_mask=[[1, 1, 1], [1, 0, 1, 1, 1], [1, 1, 1, 1]],
        )
    )
    stem = 0.75 / 2**0.5
    assert got[0].tolist() == pytest.approx([stem, stem, 1.125], abs=1e-15)
    assert got[1].tolist() == pytest.approx([stem, 0.0, -0.375, -0.375, -0.375], abs=1e-15)
    assert got[2].tolist() == pytest.approx([-0.375] * 4, abs=1e-15)


def test_a_node_is_one_of_its_group() -> None:
    got = TreeLeaveOneOut()(
        scores([1.0, 0.0, 0.5], [0, 0, 1], nodes=[[1], [2], [1]], loss_mask=[[1], [1], [1]])
    )
    assert [row.tolist() for row in got] == [[1.0], [-1.0], [0.0]]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([[1, 2], [3, 2]], "row 1 and an earlier one disagree on node 2"),
        ([[1, 2], [1, 1, 3]], "row 1 and an earlier one disagree on node 1"),
        ([[1], [1, 2]], "row 0 does not end in a leaf of its own"),
        ([[1], [1]], "row 1 does not end in a leaf of its own"),
        ([[1], []], "row 1 does not end in a leaf of its own"),
    ],
)
def test_rows_that_make_no_tree_are_refused(nodes: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TreeLeaveOneOut()(scores([1.0, 0.0], nodes=nodes, loss_mask=[[1], [1]]))


def test_attempts_may_come_in_any_order() -> None:
    got = Refinement()(scores([0.0, 1.0, 0.4, 1.0, 0.2], attempt=[4, 3, 2, 1, 0], parent=[2, 0, 0, -1, -1]))
    pair = 0.3 / (0.18**0.5 + 1e-4)
    assert got.tolist() == pytest.approx([0.0, pair, -pair, 0.0, 0.0], abs=1e-12)


def test_an_attempt_whose_parent_is_missing_and_a_circle_are_refused() -> None:
    with pytest.raises(ValueError, match="attempt 4 refines 9, which group 0 does not have"):
        Refinement()(scores([0.0], attempt=[4], parent=[9]))
    with pytest.raises(ValueError, match="in a circle"):
        Refinement()(scores([0.0, 1.0], attempt=[1, 2], parent=[2, 1]))


def test_turns_and_steps_reach_the_tokens() -> None:
    turns = [[0, -1, 1], [0, 1]]
    by_turn = TurnLevel(outcome_weight=0.0)(scores([0.0, 1.0], turn_rewards=[[1, 0], [0, 0]], turns=turns))
    assert by_turn[0].tolist() == pytest.approx([PAIR, 0.0, -PAIR], abs=1e-12)
    by_step = StepLevel(step_weight=0.0)(
        scores([0.0, 0.0], turn_rewards=[[0, 1], [0, 0]], states=[[1, 2], [1, 2]], turns=turns)
    )
    assert by_step[0].tolist() == pytest.approx([PAIR, 0.0, PAIR], abs=1e-12)


def test_contexts_are_read_from_their_column() -> None:
    got = ContextSplit(inter_weight=0.0)(scores([1.0, 0.0, 1.0, 1.0], context=[0, 0, 1, 1]))
    spread = 0.125**0.5 + 1e-5
    assert got.tolist() == pytest.approx([0.5 / spread, -0.5 / spread, 0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("name", STRUCTURED)
def test_each_names_its_columns_and_refuses_a_batch_without_them(name: str) -> None:
    advantage = STRUCTURED[name]()
    assert not advantage.needs_full_batch
    with pytest.raises(ValueError, match=f"the batch has no {advantage.needs()[0]}"):
        advantage(scores([1.0, 0.0]))


def test_a_value_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="gamma is 2"):
        StepLevel(gamma=2.0)
