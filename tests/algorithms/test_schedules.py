import pytest

from headrace.algorithms.schedules import DECAYS, learning_rate
from headrace.algorithms.seeds import sample_seed


def rates(schedule: str, warmup_steps: int, total_steps: int) -> list[float]:
    return [
        learning_rate(step, peak=8.0, schedule=schedule, warmup_steps=warmup_steps, total_steps=total_steps)
        for step in range(total_steps)
    ]


def test_linear_by_hand() -> None:
    assert rates("linear", 2, 6) == pytest.approx([4.0, 8.0, 8.0, 6.0, 4.0, 2.0], abs=1e-12)


def test_cosine_by_hand() -> None:
    root = 0.5**0.5
    expected = [8.0, 4.0 + 4.0 * root, 4.0, 4.0 - 4.0 * root]
    assert rates("cosine", 0, 4) == pytest.approx(expected, abs=1e-12)


def test_quadratic_by_hand() -> None:
    assert rates("quadratic", 0, 4) == pytest.approx([8.0, 4.5, 2.0, 0.5], abs=1e-12)


def test_warm_up_stable_decay_by_hand() -> None:
    expected = [4.0, 8.0, *[8.0] * 8, 8.0, 8.0 * (1 - 0.5**0.5)]
    assert rates("wsd", 2, 12) == pytest.approx(expected, abs=1e-12)


def test_the_decay_of_warm_up_stable_decay_takes_the_share_that_is_asked_for() -> None:
    got = [
        learning_rate(step, peak=8.0, schedule="wsd", total_steps=4, decay_share=0.5, floor=0.25)
        for step in range(4)
    ]
    assert got == pytest.approx([8.0, 8.0, 8.0, 8.0 - 6.0 * 0.5**0.5], abs=1e-12)


def test_inverse_square_root_has_no_end() -> None:
    got = [
        learning_rate(step, peak=8.0, schedule="inverse_sqrt", warmup_steps=4)
        for step in (0, 3, 4, 16, 10**6)
    ]
    assert got == pytest.approx([2.0, 8.0, 8.0, 4.0, 8.0 * (4 / 10**6) ** 0.5], abs=1e-12)


def test_a_floor_is_where_a_decay_ends() -> None:
    got = [learning_rate(step, peak=8.0, schedule="linear", total_steps=4, floor=0.5) for step in range(4)]
    assert got == pytest.approx([8.0, 7.0, 6.0, 5.0], abs=1e-12)
    with pytest.raises(ValueError, match="floor is 2"):
        learning_rate(0, peak=1.0, floor=2.0)


def test_constant_needs_no_total() -> None:
    assert learning_rate(10**9, peak=8.0) == 8.0
    assert learning_rate(0, peak=8.0, warmup_steps=4) == 2.0


@pytest.mark.parametrize("schedule", DECAYS)
def test_no_step_of_a_run_has_a_rate_of_zero(schedule: str) -> None:
    assert min(rates(schedule, 3, 200)) > 0


@pytest.mark.parametrize("total", [None, -1, 0])
def test_an_unknown_total_is_an_error_from_the_first_step_of_the_warm_up(total: int | None) -> None:
    with pytest.raises(ValueError, match="needs the total of optimizer steps"):
        learning_rate(0, peak=1.0, schedule="cosine", warmup_steps=3, total_steps=total)


def test_a_step_past_the_end_a_warm_up_past_it_and_an_unknown_name_are_errors() -> None:
    with pytest.raises(ValueError, match="step 4 is past"):
        learning_rate(4, peak=1.0, schedule="linear", total_steps=4)
    with pytest.raises(ValueError, match="warmup_steps is 4 of 4"):
        learning_rate(0, peak=1.0, schedule="linear", warmup_steps=4, total_steps=4)
    with pytest.raises(ValueError, match="unknown schedule 'exp'; choose one of constant, cosine, inv"):
        learning_rate(0, peak=1.0, schedule="exp")


def test_sample_seeds_are_fixed_and_fit_63_bits() -> None:
    seeds = {
        sample_seed(0, epoch, uid, index) for epoch in range(3) for uid in range(9) for index in range(8)
    }
    assert len(seeds) == 216
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert sample_seed(7, 0, 42, 3) == 8544714444015574885
    assert sample_seed(1, 2, 3) != sample_seed(1, 3, 2)
