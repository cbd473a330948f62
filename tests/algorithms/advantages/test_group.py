import math
from collections.abc import Callable

import numpy as np
import pytest

from headrace.algorithms.advantages import (
    batch_zscore,
    group_mean,
    group_mean_batch_std,
    group_zscore,
    leave_one_out,
    singletons,
    zero_std_frac,
)

NAN = float("nan")
Credit = Callable[[np.ndarray, np.ndarray], np.ndarray]


def zscore(rewards: list[float], groups: list[int]) -> list[float]:
    return group_zscore(np.array(rewards), np.array(groups)).tolist()


def test_groups_of_different_sizes_are_normalised_apart_by_their_ids() -> None:
    got = zscore([1, 1, 0, 1, 0], [7, 3, 7, 3, 3])
    pair = 0.5 / (0.5**0.5 + 1e-4)
    triple = (1 / 3) / ((1 / 3) ** 0.5 + 1e-4)
    assert got == pytest.approx([pair, triple, -pair, triple, -2 * triple], abs=1e-15)


def test_equal_rewards_with_floating_noise_get_exactly_zero() -> None:
    noisy = [0.1, 0.1, 0.30000000000000004 - 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]
    assert len(set(noisy)) == 2
    assert zscore(noisy, [0] * 8) == [0.0] * 8
    assert zscore([0.1] * 8, [0] * 8) == [0.0] * 8


def test_a_singleton_gets_zero() -> None:
    assert zscore([5.0], [0]) == [0.0]


def test_an_invalid_reward_enters_no_statistic_and_gets_zero() -> None:
    pair = 0.5 / (0.5**0.5 + 1e-4)
    assert zscore([1.0, NAN, 0.0], [0, 0, 0]) == pytest.approx([pair, 0.0, -pair], abs=1e-15)
    assert zscore([1.0, NAN], [0, 0]) == [0.0, 0.0]
    assert zscore([NAN, NAN], [0, 0]) == [0.0, 0.0]


def test_no_samples_have_no_advantages() -> None:
    assert zscore([], []) == []


def test_groups_without_a_signal_are_counted_singletons_and_invalid_ones_too() -> None:
    rewards = np.array([1.0, 0.0, 0.1, 0.1, 5.0, NAN, NAN])
    groups = np.array([0, 0, 1, 1, 2, 3, 3])
    assert zero_std_frac(rewards, groups) == 0.75
    assert zero_std_frac(np.array([]), np.array([])) == 0.0


def test_rewards_without_a_group_each_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \(2,\) and \(3,\)"):
        group_zscore(np.zeros(2), np.zeros(3))


@pytest.mark.parametrize(
    ("rewards", "groups", "fraction"),
    [
        ([1.0, 0.0, 1.0, 1.0], [1, 1, 2, 2], 0.5),
        ([0.1] * 8, [1] * 8, 1.0),
        ([1.0, math.nan, 0.0, 1.0, 1.0, 0.0], [1, 1, 1, 2, 2, 2], 0.0),
        ([1.0, 0.0, 3.0], [1, 1, 2], 0.5),
    ],
)
def test_groups_without_a_signal(rewards: list[float], groups: list[int], fraction: float) -> None:
    assert zero_std_frac(np.array(rewards), np.array(groups)) == fraction


CREDITS = [group_zscore, group_mean, leave_one_out, group_mean_batch_std]


def test_group_mean_by_hand() -> None:
    got = group_mean(np.array([1.0, 1.0, 0.0, 1.0, 0.0]), np.array([7, 3, 7, 3, 3]))
    assert got.tolist() == pytest.approx([0.5, 1 / 3, -0.5, 1 / 3, -2 / 3], abs=1e-15)


def test_leave_one_out_by_hand() -> None:
    got = leave_one_out(np.array([1.0, 1.0, 0.0, 1.0, 0.0]), np.array([7, 3, 7, 3, 3]))
    assert got.tolist() == pytest.approx([1.0, 0.5, -1.0, 0.5, -1.0], abs=1e-15)


def test_batch_zscore_by_hand() -> None:
    got = batch_zscore(np.array([0.0, 1.0, NAN, 2.0]))
    assert got.tolist() == pytest.approx([-1 / 1.0001, 0.0, 0.0, 1 / 1.0001], abs=1e-15)
    assert batch_zscore(np.array([0.3, 0.1 + 0.2])).tolist() == [0.0, 0.0]


def test_the_spread_of_the_batch_divides_what_is_centred_by_group() -> None:
    got = group_mean_batch_std(np.array([0.0, 1.0, 3.0, 4.0]), np.array([0, 0, 1, 1]))
    spread = (10 / 3) ** 0.5 + 1e-4
    assert got.tolist() == pytest.approx(
        [-0.5 / spread, 0.5 / spread, -0.5 / spread, 0.5 / spread], abs=1e-15
    )


@pytest.mark.parametrize("credit", CREDITS)
def test_every_credit_is_zero_for_floating_noise_singletons_and_invalid_rewards(credit: Credit) -> None:
    noisy = [0.1, 0.30000000000000004 - 0.2]
    got = credit(np.array([*noisy, 5.0, NAN, 2.0, 1.0, NAN]), np.array([0, 0, 1, 2, 3, 3, 3]))
    assert got[:4].tolist() == [0.0] * 4
    assert got[4] == -got[5] > 0
    assert got[6] == 0.0


def test_groups_left_with_one_valid_reward_are_counted() -> None:
    assert singletons(np.array([1.0, NAN, 1.0, 0.0, 2.0]), np.array([0, 0, 1, 1, 2])) == 2
