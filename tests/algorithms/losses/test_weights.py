import math

import pytest
import torch

from headrace.algorithms.losses import behaviour_weights, correct
from headrace.algorithms.losses.weights import Level, Mode
from tests.algorithms.batches import vector

PROXIMAL = vector(math.log(0.25), math.log(4.0), 0.0, math.log(8.0))
MASK = vector(1.0, 1.0, 1.0, 0.0)


def weights(mode: Mode, level: Level, low: float, high: float) -> list[float]:
    made = correct(
        PROXIMAL,
        torch.zeros(4).double(),
        mask=MASK,
        sample=torch.zeros(4).long(),
        mode=mode,
        level=level,
        low=low,
        high=high,
    )
    return made.weights.tolist()


def test_behaviour_weights_carry_no_gradient() -> None:
    proximal = vector(math.log(0.3)).requires_grad_()
    got = behaviour_weights(proximal, vector(math.log(0.2)))
    assert got.tolist() == pytest.approx([1.5], abs=1e-12)
    assert not got.requires_grad


def test_truncated_weights_become_the_bound() -> None:
    assert weights("truncate", "token", 0.5, 2.0) == pytest.approx([0.5, 2.0, 1.0, 2.0], abs=1e-12)


def test_masked_weights_become_zero_on_both_sides() -> None:
    assert weights("mask", "token", 0.5, 5.0) == pytest.approx([0.0, 4.0, 1.0, 0.0], abs=1e-12)


def test_a_sample_weighs_the_geometric_mean_of_its_trained_tokens() -> None:
    assert weights("truncate", "sequence", 0.0, 2.0) == pytest.approx([1.0] * 4, abs=1e-12)
    assert weights("mask", "sequence", 1.5, 2.0) == [0.0] * 4
