import math

import pytest
import torch

from headrace.algorithms.losses import clip_surrogate, ppo_clip, ratio
from tests.algorithms.batches import vector


def test_ppo_clip_by_hand_value_and_gradient() -> None:
    logprobs = vector(
        math.log(1.1), math.log(1.5), math.log(0.5), math.log(1.5), math.log(0.5)
    ).requires_grad_()
    advantages = vector(2.0, 2.0, 2.0, -2.0, -2.0)
    losses = ppo_clip(logprobs, torch.zeros(5).double(), advantages, clip_low=0.2, clip_high=0.28)
    assert losses.tolist() == pytest.approx([-2.2, -2.56, -1.0, 3.0, 1.6], abs=1e-12)
    losses.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-2.2, 0.0, -1.0, 3.0, 0.0], abs=1e-12)


def test_the_dual_clip_bounds_the_loss_of_negative_credit_alone() -> None:
    ratios = vector(5.0, 2.0, 5.0).requires_grad_()
    losses = clip_surrogate(ratios, vector(-2.0, -2.0, 2.0), clip_low=0.2, clip_high=0.28, dual_clip=3.0)
    assert losses.tolist() == pytest.approx([6.0, 4.0, -2.56], abs=1e-12)
    losses.sum().backward()
    assert ratios.grad is not None
    assert ratios.grad.tolist() == [0.0, 2.0, 0.0]


def test_log_ratios_are_clamped_before_exp() -> None:
    logprobs = vector(1000.0, -1000.0).requires_grad_()
    ratios = ratio(logprobs, vector(0.0, 0.0))
    assert ratios.tolist() == pytest.approx([math.exp(20.0), math.exp(-20.0)], rel=1e-12)
    ratios.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [0.0, 0.0]


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logprobs \(2,\), proximal_logprobs \(1,\), advantages \(2,\)"):
        ppo_clip(vector(0, 0), vector(0), vector(1, 1), clip_low=0.2, clip_high=0.2)
