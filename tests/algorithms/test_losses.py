import math

import pytest
import torch

from headrace.algorithms.kl import Estimator, k1, k2, k3
from headrace.algorithms.losses import behaviour_weights, ppo_clip, ratio
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


def test_log_ratios_are_clamped_before_exp() -> None:
    logprobs = vector(1000.0, -1000.0).requires_grad_()
    ratios = ratio(logprobs, vector(0.0, 0.0))
    assert ratios.tolist() == pytest.approx([math.exp(20.0), math.exp(-20.0)], rel=1e-12)
    ratios.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [0.0, 0.0]


def test_behaviour_weights_carry_no_gradient() -> None:
    proximal = vector(math.log(0.3)).requires_grad_()
    weights = behaviour_weights(proximal, vector(math.log(0.2)))
    assert weights.tolist() == pytest.approx([1.5], abs=1e-12)
    assert not weights.requires_grad


@pytest.mark.parametrize(
    ("estimator", "value", "gradient"),
    [(k1, math.log(2), 1.0), (k2, math.log(2) ** 2 / 2, math.log(2)), (k3, math.log(2) - 0.5, 0.5)],
)
def test_kl_estimators_by_hand(estimator: Estimator, value: float, gradient: float) -> None:
    logprobs = vector(math.log(0.5)).requires_grad_()
    got = estimator(logprobs, vector(math.log(0.25)))
    assert got.tolist() == pytest.approx([value], abs=1e-12)
    got.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([gradient], abs=1e-12)


@pytest.mark.parametrize("estimator", [k1, k2, k3])
def test_kl_estimators_are_zero_where_the_policies_agree(estimator: Estimator) -> None:
    assert estimator(vector(-0.7), vector(-0.7)).tolist() == [0.0]


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logprobs \(2,\), proximal_logprobs \(1,\), advantages \(2,\)"):
        ppo_clip(vector(0, 0), vector(0), vector(1, 1), clip_low=0.2, clip_high=0.2)
