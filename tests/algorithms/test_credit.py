import math
from typing import Any

import numpy as np
import pytest

from headrace.algorithms.base import GroupScores
from tests.algorithms.batches import made

NAN = math.nan


def scores(rewards: list[float], groups: list[int], **columns: list[list[float]]) -> GroupScores:
    lengths = [len(row) for row in columns.get("loss_mask", [[0.0]] * len(rewards))]
    ragged = {name: [np.array(row) for row in column] for name, column in columns.items()}
    return GroupScores(
        groups=np.array(groups), rewards=np.array(rewards), lengths=np.array(lengths), columns=ragged
    )


def credit(kind: str, given: GroupScores, **values: Any) -> list[float] | list[list[float]]:
    got = made(kind, **values).advantages(given)
    return [row.tolist() for row in got] if isinstance(got, list) else got.tolist()


def test_each_name_is_its_function() -> None:
    given = scores([1.0, 0.0, 3.0], [0, 0, 1], loss_mask=[[1.0], [1.0], [1.0]])
    pair = 0.5 / (0.5**0.5 + 1e-4)
    assert credit("grpo", given) == pytest.approx([pair, -pair, 0.0], abs=1e-15)
    assert credit("dr_grpo", given) == [0.5, -0.5, 0.0]
    assert credit("rloo", given) == [1.0, -1.0, 0.0]
    deviation = np.std([1.0, 0.0, 3.0], ddof=1) + 1e-4
    lite = credit("grpo", given, advantage="group_mean_batch_std")
    assert lite == pytest.approx([0.5 / deviation, -0.5 / deviation, 0.0], abs=1e-15)
    whole = credit("grpo", given, advantage="batch_zscore")
    assert whole == pytest.approx([(r - 4 / 3) / deviation for r in (1.0, 0.0, 3.0)], abs=1e-15)
    centred = credit("grpo", given, advantage="reinforce_pp_baseline")
    assert centred == pytest.approx([1.0, -1.0, 0.0], abs=1e-7)


def test_a_divergence_in_the_reward_is_taken_off_the_answer_before_the_statistics() -> None:
    given = scores(
        [1.0, 1.0],
        [0, 0],
        logprobs=[[-1.0, -1.0], [-1.0, -9.0]],
        reference_logprobs=[[-2.0, -1.5], [-1.0, 0.0]],
        loss_mask=[[1.0, 1.0], [1.0, 0.0]],
    )
    assert credit("rloo", given, kl_coef=0.1) == pytest.approx([-0.15, 0.15], abs=1e-15)
    assert credit("rloo", given) == [0.0, 0.0]
    assert credit("dr_grpo", given, kl_coef=0.1) == [0.0, 0.0]


def test_reinforce_pp_takes_the_divergence_off_each_token_and_whitens_over_the_batch() -> None:
    given = scores(
        [1.0, 0.0],
        [0, 1],
        logprobs=[[-1.0, -1.0], [-1.0]],
        reference_logprobs=[[-2.0, -1.0], [-1.0]],
        loss_mask=[[1.0, 1.0], [1.0]],
    )
    returns = np.array([1.0 - 0.5, 1.0, 0.0])
    want = (returns - returns.mean()) / math.sqrt(returns.var(ddof=1) + 1e-8)
    got = credit("reinforce_pp", given, kl_coef=0.5)
    assert [value for row in got for value in np.atleast_1d(row)] == pytest.approx(want.tolist(), abs=1e-12)


def test_gae_leaves_an_invalid_reward_out_and_the_others_as_they_are() -> None:
    given = scores([1.0, NAN], [0, 1], values=[[0.5, 0.25], [0.1, 0.1]], loss_mask=[[1.0, 1.0], [1.0, 1.0]])
    assert credit("sao", given) == [[0.5, 0.75], [0.0, 0.0]]
    whitened = credit("ppo", given, gae_lambda=1.0)
    step = 0.125 / math.sqrt(0.03125 + 1e-8)
    assert whitened[0] == pytest.approx([-step, step], abs=1e-12)
    assert whitened[1] == [0.0, 0.0]


def test_dapo_takes_reward_off_answers_in_the_last_fifth_of_the_longest() -> None:
    """Of 10 tokens the last 2 cost: 8 tokens 0, 9 tokens 0.5, 10 tokens 1."""
    masks = [[1.0] * length for length in (8, 9, 10)]
    given = scores([1.0, 1.0, 1.0], [0, 0, 0], loss_mask=masks)
    got = credit("dapo", given, max_new_tokens=10)
    assert got == pytest.approx([0.5 / 0.5001, 0.0, -0.5 / 0.5001], abs=1e-12)
    assert credit("dapo", given, max_new_tokens=10, overlong_share=0.0) == [0.0, 0.0, 0.0]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="the batch has no loss_mask"):
        made("ppo", critic="node").advantages(
            GroupScores(groups=np.zeros(1), rewards=np.zeros(1), lengths=np.ones(1))
        )
