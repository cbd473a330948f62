import pytest

from headrace.algorithms.losses import value_clip
from tests.algorithms.batches import vector


def test_the_worse_of_the_value_and_its_clipped_self_counts() -> None:
    values = vector(2.0, 2.0).requires_grad_()
    losses = value_clip(values, vector(1.0, 1.0), vector(0.0, 3.0), clip=0.5)
    assert losses.tolist() == pytest.approx([2.0, 1.125], abs=1e-12)
    losses.sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == pytest.approx([2.0, 0.0], abs=1e-12)


def test_without_a_clip_it_is_half_the_squared_error() -> None:
    assert value_clip(vector(2.0), vector(9.0), vector(0.0), clip=None).tolist() == [2.0]
