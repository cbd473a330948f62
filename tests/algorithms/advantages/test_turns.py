import numpy as np
import pytest

from headrace.algorithms.advantages import step_level, to_tokens, turn_level

NAN = float("nan")
PAIR = 0.5 / (0.5**0.5 + 1e-4)
"""z-score of 1 against 0."""
GROUPS = np.zeros(2, dtype=np.int64)


def ragged(*rows: list[float]) -> list[np.ndarray]:
    return [np.array(row) for row in rows]


def test_early_turns_have_credit_of_their_own_and_the_last_has_the_outcome_alone() -> None:
    got = turn_level(ragged([1, 0, 9], [0, 0, 5]), np.array([0.0, 1.0]), GROUPS, outcome_weight=0.5)
    assert got[0].tolist() == pytest.approx([0.5 * PAIR, -0.5 * PAIR, -PAIR], abs=1e-12)
    assert got[1].tolist() == pytest.approx([-0.5 * PAIR, 0.5 * PAIR, PAIR], abs=1e-12)


def test_a_turn_is_compared_only_with_episodes_that_have_it_before_their_last() -> None:
    got = turn_level(ragged([1, 7], [0]), np.array([1.0, 0.0]), GROUPS)
    assert got[0].tolist() == pytest.approx([PAIR, PAIR], abs=1e-12)
    assert got[1].tolist() == pytest.approx([-PAIR], abs=1e-12)


def test_an_episode_with_an_invalid_outcome_has_no_credit_and_enters_no_statistic() -> None:
    got = turn_level(ragged([1, 0], [0, 0], [5, 0]), np.array([1.0, 0.0, NAN]), np.zeros(3, dtype=np.int64))
    assert got[2].tolist() == [0.0, 0.0]
    assert got[0].tolist() == pytest.approx([2 * PAIR, PAIR], abs=1e-12)


def test_steps_from_one_state_are_compared_beside_whole_episodes() -> None:
    got = step_level(ragged([0, 1], [0, 0]), ragged([7, 8], [7, 9]), GROUPS, gamma=0.5)
    step = 0.25 / (0.125**0.5 + 1e-4)
    assert got[0].tolist() == pytest.approx([PAIR + step, PAIR], abs=1e-12)
    assert got[1].tolist() == pytest.approx([-PAIR - step, -PAIR], abs=1e-12)


def test_steps_of_an_invalid_episode_enter_no_statistic() -> None:
    got = step_level(ragged([0, 1], [NAN, 0]), ragged([7, 8], [7, 8]), GROUPS)
    assert [row.tolist() for row in got] == [[0.0, 0.0], [0.0, 0.0]]


def test_tokens_have_the_credit_of_their_turn_and_none_outside_of_turns() -> None:
    got = to_tokens(ragged([0.5, -1.0]), [np.array([0, 0, -1, 1])])
    assert got[0].tolist() == [0.5, 0.5, 0.0, -1.0]


def test_no_episodes_have_no_credit() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert turn_level([], np.zeros(0), nothing) == []
    assert step_level([], [], nothing) == []


def test_columns_for_another_number_of_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="turn_rewards 1, outcomes 2, groups 2"):
        turn_level(ragged([1]), np.zeros(2), GROUPS)
