"""SAO: single rollouts, a trained critic, and no gradient at all outside of the band, on either side.

Its critic is the value head that the trainer trains with each batch of the queue, not a scorer of its own.
The thousand steps at staleness 4 are run by tests/end_to_end/test_sao.py. That single answers know no
barrier of a group, and what that is worth beside stragglers, is shown on the queue's own table by
tests/transferqueue/state/test_stragglers.py.
"""

import math

import pytest

from headrace.algorithms.options import SaoOptions
from tests.algorithms.batches import made, token_batch, value_and_gradient, vector

INSIDE = (0.8001, 0.9, 1.0, 1.1, 1.1999)
OUTSIDE = (0.0, 1e-6, 0.5, 0.7999, 1.2001, 2.0, 1e6)


@pytest.mark.parametrize("credit", [-3.0, 2.0])
def test_the_gradient_is_exactly_zero_outside_of_the_band_and_the_policy_gradient_inside(
    credit: float,
) -> None:
    ratios = INSIDE + OUTSIDE
    logprobs = vector(*(math.log(ratio) if ratio else -1000.0 for ratio in ratios))
    batch = token_batch([[1] * len(ratios)], advantages=vector(*[credit] * len(ratios)))
    _, gradient, count = value_and_gradient(made("sao", critic="node"), logprobs, batch)
    assert gradient[: len(INSIDE)] == pytest.approx([-credit * ratio for ratio in INSIDE], abs=1e-12)
    assert gradient[len(INSIDE) :] == [0.0] * len(OUTSIDE)
    assert count == len(ratios)


def test_the_preset_needs_no_group_and_trains_its_own_critic() -> None:
    options = SaoOptions()
    assert options.values_by_head
    assert not options.compares_group
    assert options.value_coef == 0.1
