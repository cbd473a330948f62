"""Rewards that come up to 50 steps after their rows, as for forecasts: none blocks, is lost or repeats.

The table has one policy for rows that are late, to wait: with a finite staleness a row that is due keeps its
place until its reward is there, so the latest reward sets the pace and nothing is dropped; without a bound
rows go as their rewards come, and nobody waits. Delays are times, of 50 steps that wait for nothing: counted
in steps that wait for the reward itself, they would never pass.
"""

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.transferqueue.state.pipeline import Pipeline, Record, Trace

STEPS, ROWS_PER_STEP, TRAIN_S, LATEST_STEPS = 150, 4, 1.0, 50
ROWS = STEPS * ROWS_PER_STEP
SEEDS = range(3)


def trace_of(seed: int) -> Trace:
    """Every third row is scored up to 50 steps late, the others at once."""
    generator = random.Random(seed)
    return Trace(
        lengths_s=[generator.lognormvariate(-1.0, 0.5) for _ in range(ROWS)],
        rewards_s=[generator.uniform(0, LATEST_STEPS * TRAIN_S) * (row % 3 == 0) for row in range(ROWS)],
        train_s=TRAIN_S,
    )


@pytest.fixture
def run(bench: Any) -> Callable[[int, float], Record]:
    """The whole trace of a seed; every row must have been trained on once, within the bound."""

    def run(seed: int, staleness: float) -> Record:
        made = bench(whole_groups=False, units_per_step=ROWS_PER_STEP, staleness=staleness, lease_s=1e6)
        record = Pipeline(made, trace_of(seed), group=1, slots=4).run(STEPS)
        ledger = made.table.ledger
        assert sorted(itertools.chain(*record.trained)) == list(range(ROWS))
        assert (ledger.trained, ledger.duplicated, ledger.violations) == (ROWS, 0, 0)
        assert (ledger.lost(0), ledger.quarantined, dict(ledger.dropped)) == (0, 0, {})
        assert not made.table.shelf.rows
        assert max(ledger.staleness) <= staleness
        return record

    return run


@pytest.mark.parametrize(
    ("staleness", "trained", "committed_s", "held_back"),
    [
        (1.0, [[1], [0], [2], [3], [4]], [2.0, 12.0, 13.0, 14.0, 15.0], {1}),
        (math.inf, [[1], [2], [3], [4], [0]], [2.0, 3.0, 4.0, 5.0, 12.0], set()),
    ],
)
def test_one_late_reward_is_waited_for_when_its_row_is_due_and_not_before(
    bench: Any, staleness: float, trained: list[list[int]], committed_s: list[float], held_back: set[int]
) -> None:
    """Rows of 1 s, two at a time, steps of one row and 1 s; the reward of row 0 comes 10 s late, at 11 s.

    At staleness 1 row 0 is due in step 1: step 0 goes ahead of it, and step 1 leaves row 2, ready at 3 s.
    """
    trace = Trace(lengths_s=[1.0] * 5, rewards_s=[10.0, 0.0, 0.0, 0.0, 0.0], train_s=1.0)
    made = bench(whole_groups=False, units_per_step=1, staleness=staleness, lease_s=1e6)
    record = Pipeline(made, trace, group=1, slots=2).run(5)
    assert (record.trained, record.committed_s) == (trained, committed_s)
    assert record.held_back == held_back


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tighter_the_bound_the_longer_the_steps_wait_for_the_rows_that_are_due(
    run: Callable[[int, float], Record], seed: int
) -> None:
    records = [run(seed, staleness) for staleness in (0.0, 1.0, 4.0, 8.0, 20.0, math.inf)]
    ends_s = [record.committed_s[-1] for record in records]
    assert ends_s == sorted(ends_s, reverse=True)
    assert ends_s[2] > 5 * ends_s[-1]
    assert min(len(record.held_back) for record in records[1:-1]) > STEPS / 10


@pytest.mark.parametrize("staleness", [60.0, math.inf])
@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_waits_for_a_late_reward_without_a_bound_or_within_one_beyond_the_delay(
    run: Callable[[int, float], Record], seed: int, staleness: float
) -> None:
    record = run(seed, staleness)
    assert not record.held_back
    steps_s = [end - begin for begin, end in itertools.pairwise(record.committed_s)]
    assert steps_s == pytest.approx([TRAIN_S] * (STEPS - 1))
