import numpy as np
import pytest

from headrace.algorithms.advantages import gae, reinforce_pp, reinforce_pp_baseline, terminal_rewards, whiten

NAN = float("nan")


def ragged(*rows: list[float]) -> list[np.ndarray]:
    return [np.array(row, dtype=np.float64) for row in rows]


def lists(rows: list[np.ndarray]) -> list[list[float]]:
    return [row.tolist() for row in rows]


def test_the_reward_falls_on_the_last_trained_token() -> None:
    got = terminal_rewards(np.array([2.0, 3.0, 4.0]), ragged([1, 1, 0], [0, 0], []))
    assert lists(got) == [[0.0, 2.0, 0.0], [0.0, 0.0], []]


def test_gae_by_hand() -> None:
    got = gae(ragged([0, 0, 1]), ragged([0.5, 0.25, 0.0]), ragged([1, 1, 1]), gamma=0.5, lam=0.5)
    assert lists(got.advantages) == [[-0.375, 0.0, 1.0]]
    assert lists(got.returns) == [[0.125, 0.25, 1.0]]


def test_an_answer_that_was_cut_off_goes_on_with_the_value_after_its_last_token() -> None:
    got = gae(
        ragged([0, 0, 1], [1]),
        ragged([0.5, 0.25, 0.0], [0.5]),
        ragged([1, 1, 1], [1]),
        gamma=0.5,
        lam=0.5,
        bootstrap=np.array([2.0, 0.0]),
    )
    assert lists(got.advantages) == [[-0.3125, 0.25, 2.0], [0.5]]


def test_gae_passes_over_tokens_of_the_environment_and_credits_their_rewards_to_the_token_before() -> None:
    whole = gae(ragged([0, 3, 1]), ragged([0.5, 0.25, 0.0]), ragged([1, 1, 1]), gamma=0.5, lam=0.5)
    spread = gae(
        ragged([0, 0, 3, 0, 1]),
        ragged([0.5, 0.25, 9.0, 9.0, 0.0]),
        ragged([1, 1, 0, 0, 1]),
        gamma=0.5,
        lam=0.5,
    )
    first, second, third = whole.advantages[0].tolist()
    assert lists(spread.advantages) == [[first, second, 0.0, 0.0, third]]
    assert spread.returns[0][[2, 3]].tolist() == [0.0, 0.0]


def test_without_a_value_and_a_discount_gae_is_the_reward_to_go() -> None:
    got = gae(ragged([1, 2, 4]), ragged([0, 0, 0]), ragged([1, 1, 1]), gamma=1.0, lam=1.0)
    assert lists(got.advantages) == [[7.0, 6.0, 4.0]]


def test_an_invalid_sample_pulls_neither_policy_nor_critic() -> None:
    got = gae(ragged([0, NAN], [0, 1]), ragged([0.5, 0.25], [0, 0]), ragged([1, 1], [1, 1]))
    assert lists(got.advantages) == [[0.0, 0.0], [0.95, 1.0]]
    assert lists(got.returns)[0] == [0.5, 0.25]


def test_reinforce_pp_by_hand() -> None:
    got = reinforce_pp(
        np.array([1.0, 0.0]),
        ragged([1, 0, 1], [1]),
        ragged([0.1, 7.0, 0.3], [0.2]),
        kl_coef=0.5,
    )
    mean = (0.8 + 0.85 - 0.1) / 3
    spread = (((0.8 - mean) ** 2 + (0.85 - mean) ** 2 + (-0.1 - mean) ** 2) / 2 + 1e-8) ** 0.5
    assert got[0].tolist() == pytest.approx([(0.8 - mean) / spread, 0.0, (0.85 - mean) / spread], abs=1e-12)
    assert got[1].tolist() == pytest.approx([(-0.1 - mean) / spread], abs=1e-12)


def test_reinforce_pp_with_a_baseline_weighs_samples_by_their_tokens() -> None:
    got = reinforce_pp_baseline(np.array([1.0, 0.0, NAN]), np.array([0, 0, 0]), np.array([3, 1, 9]))
    assert got.tolist() == pytest.approx([0.5, -1.5, 0.0], abs=1e-6)


def test_whitening_leaves_invalid_samples_and_untrained_tokens_out() -> None:
    got = whiten(ragged([1, 50, 3], [NAN, 7], []), ragged([1, 0, 1], [1, 1], []))
    assert got[0].tolist() == pytest.approx([-(0.5**0.5), 0.0, 0.5**0.5], abs=1e-8)
    assert lists(got[1:]) == [[0.0, 0.0], []]


def test_a_batch_without_a_signal_is_exactly_zero() -> None:
    assert lists(reinforce_pp(np.array([0.1, 0.1]), ragged([1], [1, 1]))) == [[0.0], [0.0, 0.0]]
    assert lists(reinforce_pp(np.array([NAN]), ragged([1, 1]))) == [[0.0, 0.0]]
    assert lists(reinforce_pp(np.array([]), [])) == []


def test_columns_of_other_lengths_and_a_discount_above_one_are_refused() -> None:
    with pytest.raises(ValueError, match=r"values \[2\], masks \[3\]"):
        gae(ragged([0, 0, 1]), ragged([0, 0]), ragged([1, 1, 1]))
    with pytest.raises(ValueError, match=r"lam is 1.5"):
        gae(ragged([0]), ragged([0]), ragged([1]), lam=1.5)
