import json
from typing import Literal

import numpy as np
import pytest

from headrace.algorithms.updates import Accumulate, Annealed, GreedyRate, MiniBatches

GROUPS = np.array([5, 5, 2, 2, 9, 9, 7, 7])


def test_accumulating_makes_one_step_of_the_whole_batch() -> None:
    assert [step.tolist() for step in Accumulate().plan(3, GROUPS, seed=0)] == [list(range(8))]
    assert (Accumulate().updates_per_batch, Accumulate.streams) == (1, True)


def test_mini_batches_deal_whole_groups_and_every_sample_once_per_epoch() -> None:
    schedule = MiniBatches(number=2, epochs=3)
    steps = schedule.plan(0, GROUPS, seed=0)
    assert len(steps) == schedule.updates_per_batch == 6
    for epoch in range(3):
        first, second = steps[2 * epoch], steps[2 * epoch + 1]
        assert sorted([*first, *second]) == list(range(8))
        assert not set(GROUPS[first]) & set(GROUPS[second])
    assert not MiniBatches.streams


def test_the_order_of_groups_changes_by_batch_and_epoch_and_is_the_same_in_a_replay() -> None:
    groups = np.arange(64)
    one = MiniBatches(number=4, epochs=2)
    assert [step.tolist() for step in one.plan(0, groups, seed=0)] == [
        step.tolist() for step in one.plan(0, groups, seed=0)
    ]
    assert one.plan(0, groups, seed=0)[0].tolist() != one.plan(1, groups, seed=0)[0].tolist()
    assert one.plan(0, groups, seed=0)[0].tolist() != one.plan(0, groups, seed=0)[4].tolist()


def test_a_batch_of_fewer_groups_than_mini_batches_leaves_some_empty() -> None:
    assert sorted(map(len, MiniBatches(number=6).plan(3, GROUPS, seed=0))) == [0, 0, 2, 2, 2, 2]


@pytest.mark.parametrize(("shape", "quarter"), [("linear", 0.75), ("cosine", 0.5 + 0.5 * 0.5**0.5)])
def test_a_coefficient_moves_over_its_span_and_holds_on_either_side(
    shape: Literal["linear", "cosine"], quarter: float
) -> None:
    share = Annealed(start=1.0, end=0.0, first_step=10, last_step=50, shape=shape)
    values = [share.at(step) for step in (0, 10, 20, 30, 50, 99)]
    assert values == pytest.approx([1.0, 1.0, quarter, 0.5, 0.0, 0.0], abs=1e-12)


def test_a_span_of_no_steps_is_a_switch_and_one_that_ends_before_it_begins_is_refused() -> None:
    switch = Annealed(start=1.0, end=0.0, first_step=3, last_step=3)
    assert [switch.at(step) for step in (2, 3, 4)] == [1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="first_step is 5 and last_step 4"):
        Annealed(start=1.0, end=0.0, first_step=5, last_step=4)


def test_the_rate_rises_when_the_loss_falls_and_falls_when_it_rises() -> None:
    rate = GreedyRate(initial=0.25, factor=0.5)
    assert [rate.observe(loss) for loss in (5.0, 4.0, 3.0, 3.5, 3.4)] == [0.25, 0.5, 1.0, 0.5, 1.0]


def test_a_rate_waits_for_its_patience_and_keeps_to_its_bounds() -> None:
    rate = GreedyRate(initial=0.25, factor=0.5, patience=1, lowest=0.2, highest=0.4)
    assert [rate.observe(loss) for loss in (5, 4, 3, 2, 1, 2, 3, 4, 5)] == [
        0.25,
        0.25,
        0.4,
        0.4,
        0.4,
        0.4,
        0.2,
        0.2,
        0.2,
    ]


def test_losses_are_averaged_over_the_window_and_nan_is_none() -> None:
    rate = GreedyRate(initial=0.25, factor=0.5, window=2)
    assert [rate.observe(loss) for loss in (4.0, 2.0, float("nan"), 3.0)] == [0.25, 0.5, 0.5, 1.0]


def test_a_restored_rate_goes_on_alike() -> None:
    rate = GreedyRate(initial=0.25, patience=2, window=3)
    restored = GreedyRate(initial=0.25, patience=2, window=3)
    losses = [5.0, 4.0, 4.5, 3.0, 2.0, 1.0, 1.5, 1.2]
    for loss in losses[:5]:
        rate.observe(loss)
    restored.load_state(json.loads(json.dumps(rate.state())))
    assert [rate.observe(loss) for loss in losses[5:]] == [restored.observe(loss) for loss in losses[5:]]


def test_a_factor_of_one_and_a_rate_outside_its_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"factor is 1\.0"):
        GreedyRate(initial=0.1, factor=1.0)
    with pytest.raises(ValueError, match=r"initial 2\.0 within 0\.0 to 1\.0"):
        GreedyRate(initial=2.0)
