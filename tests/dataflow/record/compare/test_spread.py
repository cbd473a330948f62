from headrace.dataflow.record.compare.spread import Spread, by_seconds, by_step


def test_a_spread_is_of_the_sample_and_of_the_known_values_alone() -> None:
    assert Spread.of([1.0, 3.0, None]) == Spread(mean=2.0, std=2**0.5, n=2)
    assert Spread.of([4.0]) == Spread(mean=4.0, std=None, n=1)
    assert Spread.of([None]) is None


def test_curves_are_aligned_by_step_over_the_runs_that_have_it() -> None:
    line = by_step([[(0, 1.0, 0.0), (1, 2.0, 1.0)], [(0, 5.0, 2.0), (1, 6.0, 1.0), (2, 7.0, 5.0)]])
    assert line == [
        (0.0, Spread(mean=1.0, std=2**0.5, n=2)),
        (1.0, Spread(mean=1.0, std=0.0, n=2)),
        (2.0, Spread(mean=5.0, std=None, n=1)),
    ]


def test_curves_are_aligned_by_time_where_all_have_one_and_stand_until_the_next_step() -> None:
    fast, slow = [(0, 1.0, 0.0), (1, 2.0, 1.0), (2, 3.0, 2.0)], [(0, 1.5, 10.0), (1, 3.5, 11.0)]
    line = by_seconds([fast, slow], places=4)
    assert [(at, spread.mean) for at, spread in line] == [(1.5, 5.0), (2.0, 5.5), (2.5, 5.5), (3.0, 6.0)]


def test_runs_that_share_no_moment_have_no_curve_over_time() -> None:
    assert by_seconds([[(0, 1.0, 0.0), (1, 2.0, 1.0)], [(0, 2.0, 0.0), (1, 4.0, 1.0)]]) == []
