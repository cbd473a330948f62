"""Rows of one answer beside groups of eight on one trace with stragglers: what a group's barrier costs.

The trace, its lengths log-normal up to a limit, is the same for both tables, and so are the rows of a step;
only the units differ, rows or whole groups of eight neighbours. A row of one answer has no sibling to wait
for, so its neighbours of the trace stand for those that it would have had.
"""

import math
import random
from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest

from tests.transferqueue.state.pipeline import Pipeline, Record, Trace

GROUP, ROWS_PER_STEP, STEPS, TRAIN_S = 8, 32, 20, 0.2
ROWS = 3 * STEPS * ROWS_PER_STEP
LONGEST_S = 8.0
"""Eight times the median: where `max_new_tokens` ends an answer."""
SEEDS = range(3)


@pytest.fixture
def run(bench: Any) -> Callable[[int, int, float], Record]:
    """The first steps of a seed's trace in units of `group` rows; 64 rows decode at a time."""

    def run(seed: int, group: int, staleness: float) -> Record:
        generator = random.Random(seed)
        lengths_s = [min(LONGEST_S, generator.lognormvariate(0.0, 1.0)) for _ in range(ROWS)]
        made = bench(
            whole_groups=group > 1,
            units_per_step=ROWS_PER_STEP // group,
            staleness=staleness,
            lease_s=1e6,
        )
        trace = Trace(lengths_s=lengths_s, rewards_s=[0.0] * ROWS, train_s=TRAIN_S)
        record = Pipeline(made, trace, group=group, slots=64).run(STEPS)
        assert (made.table.ledger.violations, made.table.ledger.trained) == (0, STEPS * ROWS_PER_STEP)
        return record

    return run


def waits_s(record: Record) -> list[float]:
    """From its last token to the trainer, of each row that is in a step."""
    return [record.taken_s[uid] - record.generated_s[uid] for step in record.trained for uid in step]


def neighbours_end_s(record: Record, uid: int) -> float:
    """When the slowest of the eight rows has ended that would be, or are, one group; infinite: not yet."""
    first = uid - uid % GROUP
    return max(record.generated_s.get(other, math.inf) for other in range(first, first + GROUP))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_single_answer_is_trained_on_whatever_its_neighbours_do(
    run: Callable[[int, int, float], Record], seed: int
) -> None:
    """Without a bound it waits for no more than the step that the trainer is at; a group for its slowest."""
    single, grouped = run(seed, 1, math.inf), run(seed, GROUP, math.inf)
    assert max(waits_s(single)) <= TRAIN_S
    assert mean(waits_s(grouped)) > 10 * TRAIN_S
    before = [single.taken_s[uid] < neighbours_end_s(single, uid) for step in single.trained for uid in step]
    assert mean(before) > 0.8
    for uid in [uid for step in grouped.trained for uid in step]:
        assert grouped.taken_s[uid] >= neighbours_end_s(grouped, uid)


@pytest.mark.parametrize(("staleness", "share"), [(4.0, 0.98), (8.0, 0.92), (math.inf, 0.88)])
def test_single_answers_end_the_same_steps_sooner_than_groups_at_the_same_staleness(
    run: Callable[[int, int, float], Record], staleness: float, share: float
) -> None:
    """By little where the bound is tight: to wait for the rows that are due is a barrier too, for both."""
    single = mean(run(seed, 1, staleness).committed_s[-1] for seed in SEEDS)
    grouped = mean(run(seed, GROUP, staleness).committed_s[-1] for seed in SEEDS)
    assert single < share * grouped


@pytest.mark.parametrize("seed", SEEDS)
def test_single_answers_four_steps_ahead_take_a_third_of_the_time_of_synchronous_groups(
    run: Callable[[int, int, float], Record], seed: int
) -> None:
    assert run(seed, 1, 4.0).committed_s[-1] < run(seed, GROUP, 0.0).committed_s[-1] / 3
