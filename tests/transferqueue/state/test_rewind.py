"""A trainer that comes back to a checkpoint: the same batches in the same order, or a new timeline."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import LeaseLost, Refused, RowsGone, StepRefused
from headrace.transferqueue.state.publications import Publications
from headrace.transferqueue.state.rewind import checkpointed, fork, rewind

Make = Callable[..., Any]


def trained(bench: Make, steps: int, **changes: Any) -> tuple[Any, list[list[int]]]:
    """A table of groups of two, two groups a step, with `steps` of them committed."""
    b = bench(**{"rewindable": True, "staleness": 1.0, **changes})
    b.prompts(10, 2)
    batches = []
    for step in range(steps):
        b.table.publish(step)
        b.roll(8, step)
        b.score()
        batches.append(b.learn(4))
        b.commit(step, batches[-1])
    b.table.publish(steps)
    return b, batches


def test_the_same_batches_are_handed_out_in_the_same_order(bench: Make) -> None:
    b, batches = trained(bench, 3)
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    rewind(b.table, "learn", 1)
    assert (b.table.ledger.step, b.table.ledger.trained) == (1, 4)
    assert b.table.ledger.staleness == {0: 4}
    assert b.learn(100) == [4, 5, 6, 7]
    assert b.learn(100) == [], "the rows of step 2 are not part of step 1"
    b.commit(1, [4, 5, 6, 7])
    assert [b.learn(2), b.learn(2)] == [[8, 9], [10, 11]]
    b.commit(2, [8, 9, 10, 11])
    assert b.table.ledger.lost(len(b.table.shelf.rows) - b.table.shelf.consumed) == 0
    assert (b.table.ledger.step, b.table.ledger.trained, b.table.ledger.violations) == (3, 12, 0)


def test_a_batch_comes_again_in_the_order_in_which_it_was_committed(bench: Make) -> None:
    b, _ = trained(bench, 1)
    b.roll(8, 1)
    b.score()
    b.learn(4)
    b.commit(1, [6, 7, 4, 5])
    rewind(b.table, "learn", 1)
    assert b.learn(4) == [6, 7, 4, 5]


def test_a_batch_comes_again_cut_into_the_leases_that_it_was_made_of(bench: Make) -> None:
    b, _ = trained(bench, 1)
    b.roll(8, 1)
    b.score()
    assert [b.learn(2), b.learn(4)[:2]] == [[4, 5], [6, 7]]
    b.commit(1, [4, 5, 6, 7])
    for _ in range(2):
        rewind(b.table, "learn", 0)
        assert [b.learn(100), b.learn(100)] == [[0, 1, 2, 3], []]
        b.commit(0, [0, 1, 2, 3])
        assert [b.learn(100), b.learn(100), b.learn(100)] == [[4, 5], [6, 7], []]
        b.commit(1, [4, 5, 6, 7])


def test_a_replay_goes_on_where_it_was_left_by_a_trainer_that_died_again(bench: Make) -> None:
    b, batches = trained(bench, 2)
    rewind(b.table, "learn", 0)
    assert b.learn(2, holder="t") == [0, 1]
    b.table.evict("t", "killed")
    assert b.learn(4, holder="next") == batches[0]


def test_going_back_to_the_step_that_is_due_ends_the_leases_of_the_dead(bench: Make) -> None:
    b, _ = trained(bench, 1)
    b.roll(4, 1)
    b.score()
    assert b.learn(4) == [4, 5, 6, 7]
    rewind(b.table, "learn", 1)
    with pytest.raises(LeaseLost):
        b.commit(1, [4, 5, 6, 7])
    assert b.learn(4) == [4, 5, 6, 7]


def test_a_step_that_loses_a_row_to_quarantine_takes_another_and_so_do_later_ones(bench: Make) -> None:
    table, batches = trained(bench, 2, max_attempts=1)
    rewind(table.table, "learn", 0)
    lost = batches[0][0]
    held = table.table.lease(0.0, "learn", 1, holder="t", version=None)
    assert next(iter(held.rows)) == lost
    table.table.release(held.id, [lost], reason="out of memory")
    assert not table.table.history.is_again(0) and not table.table.history.is_again(1)
    assert lost in table.table.ledger.quarantine
    assert set(table.learn()) <= {uid for batch in batches for uid in batch} - {lost}


def test_rows_are_freed_once_a_checkpoint_covers_them(bench: Make) -> None:
    b, _ = trained(bench, 2, staleness=0.0)
    assert len(b.table.effects().freed) == 0
    checkpointed(b.table, "learn", 1)
    assert len(b.table.effects().freed) == 2, "rollouts and scores of step 0; prompts are in one block"
    with pytest.raises(StepRefused, match="steps 1 to 2 can be gone back to"):
        rewind(b.table, "learn", 0)
    with pytest.raises(StepRefused, match="ahead of the queue; 2 is due"):
        checkpointed(b.table, "learn", 3)
    rewind(b.table, "learn", 1)
    assert b.learn(4) == [4, 5, 6, 7]


def test_rows_that_may_come_back_take_no_room_of_the_living(bench: Make) -> None:
    b, _ = trained(bench, 2, max_rows=20)
    assert len(b.table.shelf.rows) == 12
    assert b.table.shelf.room(8, 0)
    rewind(b.table, "learn", 0)
    assert len(b.table.shelf.rows) == 20
    with pytest.raises(RowsGone):
        checkpointed(b.table, "learn", 0)
        b.commit(0, [99])


def test_a_table_that_keeps_nothing_cannot_go_back(bench: Make) -> None:
    b, _ = trained(bench, 1, rewindable=False)
    with pytest.raises(Refused, match="not rewindable"):
        rewind(b.table, "learn", 0)
    with pytest.raises(Refused, match="of kind work"):
        rewind(b.table, "score", 0)


def test_rows_of_a_lost_timeline_are_dropped_and_the_others_are_trained_on(bench: Make) -> None:
    """B12: back to step 1 with rows of version 2 in the queue, and version 2 comes out another."""
    b, batches = trained(bench, 2)
    assert b.roll(2, 2) == [12, 13]
    rewind(b.table, "learn", 1)
    assert b.learn(4) == batches[1]
    b.commit(1, batches[1])
    assert fork(b.table, 2) == [12, 13]
    assert b.table.newest_version == 2
    assert b.table.ledger.dropped == {"timeline: made by a lost version, 2 or later": 2}
    b.score()
    assert b.learn(4) == [8, 9, 10, 11], "begun at version 1, before the fork"
    b.commit(2, [8, 9, 10, 11])
    assert b.table.ledger.violations == 0


def test_rollouts_that_are_out_when_a_timeline_begins_are_called_back(bench: Make) -> None:
    b, batches = trained(bench, 1)
    lease, uids = b.lease("roll", 2, version=0)
    assert uids == []
    lease, uids = b.lease("roll", 2, version=1)
    rewind(b.table, "learn", 0)
    b.learn(4)
    b.commit(0, batches[0])
    assert fork(b.table, 1) == uids
    with pytest.raises(LeaseLost):
        b.write(uids, ("response", "versions"), lease, floors=[1, 1])


def test_a_version_that_comes_out_the_same_stays_on_its_timeline() -> None:
    known = Publications("actor")
    assert [known.publish(version, f"sum {version}") for version in range(4)] == [False] * 4
    with pytest.raises(StepRefused, match="does not follow it"):
        known.publish(2, "sum 2")
    known.rewind(1)
    assert [known.publish(version, f"sum {version}") for version in (1, 2, 3)] == [False] * 3
    assert known.newest is not None and (known.newest.version, known.newest.timeline) == (3, 0)
    with pytest.raises(StepRefused):
        known.publish(2, "sum 2")


def test_readers_are_offered_nothing_between_a_trainers_death_and_its_return() -> None:
    known = Publications("actor")
    for version in range(4):
        known.publish(version, f"sum {version}")
    assert known.offered == known.newest
    known.rewind(1)
    assert known.offered is None
    known.publish(1, "sum 1")
    assert known.offered is not None and (known.offered.version, known.offered.serial) == (1, 5)
    assert known.newest is not None and (known.newest.version, known.newest.serial) == (3, 4)
    for version in (2, 3):
        known.publish(version, f"sum {version}")
    assert (known.offered.version, known.offered.serial) == (3, 7)


def test_a_version_that_comes_out_another_begins_a_timeline() -> None:
    known = Publications("actor")
    for version in range(4):
        known.publish(version, f"sum {version}")
    known.rewind(1)
    known.publish(1, "sum 1")
    assert known.publish(2, "another")
    assert known.newest is not None and (known.newest.version, known.newest.timeline) == (2, 1)
    assert not known.publish(3, "and on")
    known.cover(3)
    known.rewind(3)
    assert known.publish(3, "and another")
