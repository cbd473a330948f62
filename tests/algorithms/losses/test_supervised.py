import math

import pytest
import torch

from headrace.algorithms.losses import likelihood, pacs, rover, rover_targets
from tests.algorithms.batches import vector


def test_likelihood_by_hand() -> None:
    assert likelihood(vector(math.log(0.25))).tolist() == pytest.approx([2 * math.log(2)], abs=1e-12)


def test_pacs_value_and_gradient_by_hand() -> None:
    scores = vector(1.0, 0.0, 2.0).requires_grad_()
    losses = pacs(scores, vector(1.0, 0.0, 1.0), torch.tensor([7, 7, 4]))
    near, alone = math.log1p(math.exp(-1)), math.log1p(math.exp(-2))
    assert losses.tolist() == pytest.approx([near, near, alone], abs=1e-12)
    losses.sum().backward()
    slope = 1 / (1 + math.exp(-1)) - 1
    assert scores.grad is not None
    assert scores.grad.tolist() == pytest.approx(
        [2 * slope, -2 * slope, 1 / (1 + math.exp(-2)) - 1], abs=1e-12
    )


def test_balanced_pacs_weighs_the_one_right_answer_of_eight_like_the_seven_wrong_ones() -> None:
    labels = vector(1.0, *[0.0] * 7)
    losses = pacs(torch.zeros(8).double(), labels, torch.zeros(8).long(), balanced=True)
    assert losses.tolist() == pytest.approx([4 * math.log(2), *[4 / 7 * math.log(2)] * 7], abs=1e-12)
    same = pacs(torch.zeros(2).double(), vector(1.0, 1.0), torch.zeros(2).long(), balanced=True)
    assert same.tolist() == pytest.approx([math.log(2)] * 2, abs=1e-12)


def test_rover_targets_take_the_next_tokens_mean_value_and_nothing_after_the_last() -> None:
    targets = rover_targets(
        vector(-1.0, -2.0, -3.0),
        vector(-1.5, -2.5, -2.0),
        vector(0.5, 0.5, -0.5),
        sample=torch.tensor([0, 0, 1]),
    )
    assert targets.tolist() == pytest.approx([1.0, 0.5, -0.5], abs=1e-12)


def test_rover_regresses_the_log_ratio_to_its_target_without_moving_the_target() -> None:
    logprobs, targets = vector(-1.0).requires_grad_(), vector(0.5).requires_grad_()
    losses = rover(logprobs, vector(-1.2), targets)
    assert losses.tolist() == pytest.approx([0.09], abs=1e-12)
    losses.sum().backward()
    assert logprobs.grad is not None and targets.grad is None
    assert logprobs.grad.tolist() == pytest.approx([-0.6], abs=1e-12)
