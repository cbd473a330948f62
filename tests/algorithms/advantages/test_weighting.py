import math

import numpy as np
import pytest

from headrace.algorithms.advantages import (
    context_split,
    disagreement_weights,
    duration_weighted,
    overlong_penalty,
    per_task,
    position_weights,
)

NAN = float("nan")


def test_tasks_are_normalised_apart() -> None:
    got = per_task(np.array([1.0, 10.0, 3.0, 30.0, NAN, 7.0]), np.array([0, 1, 0, 1, 0, 2]))
    assert got.tolist() == pytest.approx([-1.0, -1.0, 1.0, 1.0, 0.0, 0.0], abs=1e-15)


def test_a_task_is_normalised_over_its_tokens() -> None:
    got = per_task(np.array([1.0, 3.0]), np.array([0, 0]), np.array([3, 1]))
    assert got.tolist() == pytest.approx([-0.5 / 0.75**0.5, 1.5 / 0.75**0.5], abs=1e-15)


def test_long_actions_weigh_more_and_the_mean_weight_is_one() -> None:
    assert duration_weighted(np.array([1.0, -2.0]), np.array([1.0, 3.0])).tolist() == [0.5, -3.0]
    with pytest.raises(ValueError, match=r"durations_s must be above 0, got 0\.0"):
        duration_weighted(np.array([1.0, 1.0]), np.array([0.0, 3.0]))


def test_credit_within_and_between_contexts_by_hand() -> None:
    got = context_split(
        np.array([1.0, 0.0, 1.0, 1.0, 0.0, NAN]), np.zeros(6, dtype=np.int64), np.array([0, 0, 1, 1, -1, 1])
    )
    raw = [0.39, -0.61, 0.44, 0.44, -0.6]
    mean = sum(raw) / 5
    spread = (sum((value - mean) ** 2 for value in raw) / 5) ** 0.5 + 1e-5
    assert got.tolist() == pytest.approx([*((value - mean) / spread for value in raw), 0.0], abs=1e-12)


def test_a_tilt_moves_weight_to_late_tokens_and_none_leaves_them_equal() -> None:
    late = position_weights(np.array([2, 0]), tilt=2 * math.log(3))
    assert late[0].tolist() == pytest.approx([0.5, 1.5], abs=1e-15)
    assert late[1].tolist() == []
    assert position_weights(np.array([3]), tilt=0.0)[0].tolist() == [1.0, 1.0, 1.0]


def test_turns_on_which_an_unsure_student_differs_weigh_more() -> None:
    got = disagreement_weights(
        [np.array([1.0, 0.0]), np.array([])],
        [np.array([1.0, 5.0]), np.array([])],
        temperature=1 / math.log(3),
    )
    assert got[0].tolist() == pytest.approx([1.5, 0.5], abs=1e-15)
    assert got[1].tolist() == []
    with pytest.raises(ValueError, match="temperature is 0"):
        disagreement_weights([], [], temperature=0)


def test_the_penalty_grows_over_the_cache_and_is_one_beyond_it() -> None:
    got = overlong_penalty(np.array([10, 16, 18, 20, 25]), max_length=20, cache=4)
    assert got.tolist() == [0.0, 0.0, -0.5, -1.0, -1.0]
    with pytest.raises(ValueError, match="cache is 30 of max_length 20"):
        overlong_penalty(np.array([1]), max_length=20, cache=30)
