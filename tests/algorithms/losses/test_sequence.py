import math

import pytest
import torch

from headrace.algorithms.losses import gspo_ratio, gspo_token_ratio, product_ratio
from tests.algorithms.batches import vector

MASK = vector(1.0, 1.0, 0.0, 1.0)
SAMPLE = torch.tensor([0, 0, 0, 1])
LOG_RATIOS = (math.log(2), math.log(8), 5.0, math.log(3))


def leaf() -> torch.Tensor:
    return vector(*LOG_RATIOS).requires_grad_()


def test_gspo_is_the_geometric_mean_over_the_trained_tokens_of_a_sample() -> None:
    logprobs = leaf()
    ratios = gspo_ratio(logprobs, torch.zeros(4).double(), mask=MASK, sample=SAMPLE)
    assert ratios.tolist() == pytest.approx([4.0, 4.0, 4.0, 3.0], abs=1e-12)
    (gradient,) = torch.autograd.grad(ratios[0], logprobs)
    assert gradient.tolist() == pytest.approx([2.0, 2.0, 0.0, 0.0], abs=1e-12)


def test_gspo_token_has_the_value_of_gspo_and_the_gradient_of_its_own_token() -> None:
    logprobs = leaf()
    ratios = gspo_token_ratio(logprobs, torch.zeros(4).double(), mask=MASK, sample=SAMPLE)
    assert ratios.tolist() == pytest.approx([4.0, 4.0, 4.0, 3.0], abs=1e-12)
    (gradient,) = torch.autograd.grad(ratios[0] + ratios[3], logprobs)
    assert gradient.tolist() == pytest.approx([4.0, 0.0, 0.0, 3.0], abs=1e-12)


def test_the_ratio_of_answers_is_the_product_over_trained_tokens() -> None:
    logprobs = leaf()
    ratios = product_ratio(logprobs, torch.zeros(4).double(), mask=MASK, sample=SAMPLE)
    assert ratios.tolist() == pytest.approx([16.0, 16.0, 16.0, 3.0], abs=1e-12)
    (gradient,) = torch.autograd.grad(ratios[0], logprobs)
    assert gradient.tolist() == pytest.approx([16.0, 16.0, 0.0, 0.0], abs=1e-12)


def test_the_exponent_of_a_long_answer_is_clamped() -> None:
    ratios = product_ratio(
        vector(15.0, 15.0), vector(0.0, 0.0), mask=vector(1, 1), sample=torch.zeros(2).long()
    )
    assert ratios.tolist() == pytest.approx([math.exp(20.0)] * 2, rel=1e-12)


def test_no_tokens_have_no_ratios() -> None:
    empty = vector()
    assert gspo_ratio(empty, empty, mask=empty, sample=torch.zeros(0).long()).tolist() == []
