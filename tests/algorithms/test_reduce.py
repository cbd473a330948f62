from dataclasses import replace

import pytest

from headrace.algorithms.base import TokenBatch
from headrace.algorithms.reduce import REDUCTIONS, prompt_mean, sequence_mean, sequence_sum, token_mean
from tests.algorithms.batches import token_batch, vector

LOSSES = (1.0, *[0.0] * 9)


def value(name: str, batches: list[TokenBatch], losses: list[tuple[float, ...]]) -> float:
    parts = [REDUCTIONS[name](batch) for batch in batches]
    total = sum(float(part.total(vector(*row))) for part, row in zip(parts, losses, strict=True))
    return total / sum(part.count for part in parts)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("token_mean", 0.1), ("sequence_mean", 0.5), ("sequence_sum", 0.5), ("prompt_mean", 0.1)],
)
def test_lengths_one_and_nine_reduce_alike_in_one_micro_batch_or_two(name: str, expected: float) -> None:
    whole = token_batch([[1], [1] * 9], groups=[0, 0])
    first, second = token_batch([[1]]), token_batch([[1] * 9])
    split = [replace(part, group_tokens=vector(10.0)) for part in (first, second)]
    assert value(name, [whole], [LOSSES]) == pytest.approx(expected, abs=1e-15)
    assert value(name, split, [LOSSES[:1], LOSSES[1:]]) == pytest.approx(expected, abs=1e-15)


def test_token_mean_weighs_every_trained_token_the_same() -> None:
    reduced = token_mean(token_batch([[1, 0, 1], [1]]))
    assert (reduced.weights.tolist(), reduced.count) == ([1.0, 0.0, 1.0, 1.0], 3.0)


def test_sequence_mean_counts_samples_that_have_a_trained_token() -> None:
    reduced = sequence_mean(token_batch([[1, 0, 1], [0, 0], [1]]))
    assert (reduced.weights.tolist(), reduced.count) == ([0.5, 0.0, 0.5, 0.0, 0.0, 1.0], 2.0)


def test_sequence_sum_divides_by_its_constant_alone() -> None:
    reduced = sequence_sum(token_batch([[1, 1], [1]]), length=4.0)
    assert (reduced.weights.tolist(), reduced.count) == ([0.25, 0.25, 0.25], 2.0)


def test_prompt_mean_gives_each_prompt_the_same_weight() -> None:
    reduced = prompt_mean(token_batch([[1, 1], [1, 0, 1], [1]], groups=[0, 0, 1]))
    assert reduced.weights.tolist() == [0.25, 0.25, 0.25, 0.0, 0.25, 1.0]
    assert reduced.count == 2.0


@pytest.mark.parametrize("name", REDUCTIONS)
def test_an_all_masked_batch_is_zero_over_zero_without_nan(name: str) -> None:
    reduced = REDUCTIONS[name](token_batch([[0, 0], [0]]))
    assert reduced.count == 0.0
    assert float(reduced.total(vector(float("nan"), float("inf"), 1.0))) == 0.0
