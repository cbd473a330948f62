import math

import pytest
import torch

from headrace.algorithms.losses import masked_ratio, policy_gradient, second_moment_mask, topr_weights
from tests.algorithms.batches import vector


def test_a_weighted_policy_gradient_has_the_weight_and_the_credit_as_its_gradient() -> None:
    logprobs = vector(math.log(0.5), math.log(0.1)).requires_grad_()
    losses = policy_gradient(logprobs, vector(3.0, 0.0), vector(2.0, -1.0))
    assert losses.tolist() == pytest.approx([6.0 * math.log(2), 0.0], abs=1e-12)
    losses.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-6.0, 0.0], abs=1e-12)


def test_topr_tapers_negative_answers_by_their_product_ratio_and_nothing_else() -> None:
    half, twice = math.log(0.5), math.log(2.0)
    weights = topr_weights(
        vector(half, half, half, half, twice, twice),
        torch.zeros(6).double(),
        vector(1.0, 1.0, -1.0, -1.0, -1.0, -1.0),
        mask=torch.ones(6).double(),
        sample=torch.tensor([0, 0, 1, 1, 2, 2]),
    )
    assert weights.tolist() == pytest.approx([1.0, 1.0, 0.25, 0.25, 1.0, 1.0], abs=1e-12)


def test_outside_of_the_band_a_token_has_neither_loss_nor_gradient_on_either_side() -> None:
    logprobs = vector(math.log(0.7), math.log(0.9), math.log(1.3), math.log(0.7)).requires_grad_()
    losses = masked_ratio(logprobs, torch.zeros(4).double(), vector(-1.0, 2.0, 3.0, 5.0), low=0.8, high=1.2)
    assert losses.tolist() == pytest.approx([0.0, -1.8, 0.0, 0.0], abs=1e-12)
    losses.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([0.0, -1.8, 0.0, 0.0], abs=1e-12)


def kept(log_ratios: list[float], mask: list[float], threshold: float) -> list[float]:
    return second_moment_mask(
        vector(*log_ratios), torch.zeros(len(mask)).double(), mask=vector(*mask), threshold=threshold
    ).tolist()


def test_the_fewest_tokens_go_until_the_second_moment_of_the_rest_fits() -> None:
    squares_01_04_09 = [0.1, -0.2, 0.3]
    assert kept(squares_01_04_09, [1, 1, 1], (0.01 + 0.04) / 2 + 1e-9) == [1.0, 1.0, 0.0]
    assert kept(squares_01_04_09, [1, 1, 1], 0.14 / 3 + 1e-9) == [1.0, 1.0, 1.0]


def test_masked_tokens_neither_count_nor_are_kept() -> None:
    assert kept([9.0, 0.0, 0.3], [0, 1, 1], 0.05) == [0.0, 1.0, 1.0]
    assert kept([9.0, 9.0], [0, 0], 0.05) == [0.0, 0.0]


def test_tokens_of_equal_squares_go_together() -> None:
    assert kept([0.0, 0.3, -0.3], [1, 1, 1], 0.05) == [1.0, 0.0, 0.0]
    assert kept([1.0, -1.0], [1, 1], 0.05) == [0.0, 0.0]
