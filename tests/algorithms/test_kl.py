import math

import pytest

from headrace.algorithms.kl import Estimator, k1, k2, k3
from tests.algorithms.batches import vector


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
