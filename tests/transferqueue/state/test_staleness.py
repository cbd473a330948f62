import math

import pytest

from headrace.transferqueue.state.staleness import Window, fits, units_ahead


@pytest.mark.parametrize(
    ("staleness", "begun"), [(0.0, 4), (0.5, 6), (1.0, 8), (1.1, 9), (2.0, 12), (0.25, 5)]
)
def test_the_gate_lets_b_plus_one_plus_eta_batches_begin(staleness: float, begun: int) -> None:
    window = Window(units_per_step=4, staleness=staleness, first_step=0)
    count = 0
    while window.may_begin(0):
        window.begin(0)
        count += 1
    assert count == begun


def test_a_decimal_staleness_is_taken_exactly() -> None:
    assert units_ahead(0.1, 10) == 1
    assert units_ahead(0.7, 10) == 7
    assert units_ahead(math.inf, 10) == math.inf


def test_without_a_bound_the_gate_never_closes() -> None:
    window = Window(units_per_step=1, staleness=math.inf, first_step=0)
    for _ in range(1000):
        assert window.may_begin(0)
        assert window.begin(0) == math.inf


def test_capacity_after_a_restart_at_version_100_is_12_and_not_412() -> None:
    """A08."""
    window = Window(units_per_step=4, staleness=2, first_step=100)
    assert window.capacity(100) == 12
    assert window.consumed == 400


def test_a_replica_that_lags_is_held_back_by_its_own_version() -> None:
    window = Window(units_per_step=4, staleness=1, first_step=0)
    for _ in range(8):
        window.begin(0)
    for _ in range(4):
        window.take(1, counted=True)
    window.commit(4)
    assert not window.may_begin(0)
    assert window.may_begin(1)
    assert window.capacity(1) == 4


def test_a_fresh_unit_may_go_early_only_while_the_straggler_keeps_its_place() -> None:
    window = Window(units_per_step=2, staleness=1, first_step=0)
    for _ in range(4):
        window.begin(0)
    window.take(1, counted=True)
    window.take(1, counted=True)
    window.commit(2)
    window.begin(1)
    window.begin(1)
    assert window.due == {1: 2, 2: 2}
    assert not window.may_take(2)
    assert window.may_take(1)


def test_with_a_place_to_spare_a_later_unit_may_be_taken() -> None:
    window = Window(units_per_step=3, staleness=1, first_step=0)
    for _ in range(5):
        window.begin(0)
    for _ in range(3):
        window.take(1, counted=True)
    window.commit(3)
    window.begin(1)
    assert window.due == {1: 2, 2: 1}
    assert window.may_take(2)
    window.take(2, counted=True)
    window.begin(1)
    assert not window.may_take(2)


def test_no_unit_is_taken_beyond_the_places_of_a_step() -> None:
    window = Window(units_per_step=1, staleness=math.inf, first_step=0)
    window.begin(0)
    window.begin(0)
    window.take(math.inf, counted=True)
    assert not window.may_take(math.inf)


def test_a_short_step_may_not_strand_a_unit_that_is_due_in_it() -> None:
    window = Window(units_per_step=2, staleness=0, first_step=0)
    window.begin(0)
    window.begin(0)
    window.take(0, counted=True)
    assert not window.may_commit(1)
    window.leave(0, taken=False, counted=True)
    assert window.may_commit(1)
    window.commit(1)
    assert (window.step, window.consumed, window.outstanding) == (1, 2, 0)


def test_a_returned_unit_gives_its_place_back() -> None:
    window = Window(units_per_step=1, staleness=0, first_step=0)
    window.begin(0)
    window.take(0, counted=True)
    assert window.places == 0
    window.untake(0, counted=True)
    assert (window.places, window.outstanding, window.due) == (1, 1, {0: 1})


@pytest.mark.parametrize(
    ("due", "places", "fit"), [({5: 2}, 2, True), ({5: 3}, 2, False), ({6: 4}, 2, True), ({6: 5}, 2, False)]
)
def test_units_fit_when_each_finds_a_place_by_its_deadline(
    due: dict[float, int], places: int, fit: bool
) -> None:
    assert fits(due, step=5, places=places, units_per_step=2) is fit
