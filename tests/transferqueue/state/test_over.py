"""Tasks that are over: their table flows on, and they may be live again."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import EndOfData, Refused, StepRefused, Task
from headrace.transferqueue.server.census import table_stats
from headrace.transferqueue.server.explain import why_no_lease
from headrace.transferqueue.state.over import finish, reopen
from headrace.transferqueue.state.parking import park, unpark
from headrace.transferqueue.state.reissue import lose
from headrace.transferqueue.state.rewind import rewind

Make = Callable[..., Any]

TASKS = (
    Task(name="roll", reads=("prompt",), writes=("response", "versions"), kind="begin"),
    Task(name="score", reads=("response",), writes=("reward",)),
    Task(name="learn", reads=("reward",), kind="train", needs_full_group=True),
    Task(name="branch", reads=("response",)),
)


def branch(b: Any) -> list[int]:
    """What flows from the rows of this table into another."""
    lease, uids = b.lease("branch", 100)
    if uids:
        b.table.ack(lease, None)
    return uids


def test_the_gate_is_open_whatever_the_version(bench: Make) -> None:
    b = bench()
    b.prompts(6, 1)
    assert b.roll(100, 0) == [0, 1]
    finish(b.table, "learn")
    assert b.roll(100, 0) == [2, 3, 4, 5]
    b.score()
    assert b.table.shelf.rows == {}
    assert (b.table.ledger.finished, b.table.ledger.trained, b.table.ledger.violations) == (6, 0, 0)
    assert b.table.ledger.lost(0) == 0


def test_rows_that_it_held_or_had_ready_leave_once_the_others_are_done(bench: Make) -> None:
    """Row 0 held, row 1 ready, row 2 not scored, row 3 not begun."""
    b = bench(tasks=TASKS, units_per_step=3)
    b.prompts(4, 1)
    b.roll(3, 0)
    lease, _ = b.lease("score", 2)
    b.write([0, 1], ("reward",), lease)
    b.table.ack(lease, None)
    assert b.learn(1) == [0]
    assert finish(b.table, "learn") == [3]
    assert list(b.table.leases) == []
    assert branch(b) == [0, 1, 2]
    assert list(b.table.shelf.rows) == [2, 3]
    b.score()
    assert list(b.table.shelf.rows) == [3]
    assert set(b.table.effects().tasks) == {"roll", "learn", "score", "branch"}


def test_what_is_put_afterwards_is_finished_for_it_from_the_start(bench: Make) -> None:
    b = bench(tasks=TASKS)
    finish(b.table, "learn")
    b.prompts(2, 2)
    b.roll(100, 0)
    b.score()
    stats = table_stats(b.table, 0.0)
    assert (stats.tasks["learn"].done, stats.tasks["learn"].over, stats.tasks["roll"].over) == (
        4,
        True,
        False,
    )
    assert (stats.outstanding_units, stats.staleness_in_queue) == (0, {})
    assert branch(b) == [0, 1, 2, 3]
    assert (b.table.ledger.finished, len(b.table.shelf.rows)) == (4, 0)


def test_a_table_that_only_the_trainer_reads_lets_rows_go_at_once(bench: Make) -> None:
    b = bench(tasks=(Task(name="learn", reads=("prompt",), kind="train"),))
    finish(b.table, "learn")
    b.prompts(2, 2)
    assert (b.table.shelf.rows, b.table.ledger.finished, b.table.shelf.bytes) == ({}, 4, 0)
    assert len(b.table.effects().freed) == 1


def test_its_leases_end_and_steps_are_refused_save_those_committed(bench: Make) -> None:
    b = bench()
    b.prompts(2, 1)
    b.roll(2, 0)
    b.score()
    b.commit(0, b.learn())
    finish(b.table, "learn")
    assert finish(b.table, "learn") == [], "once more changes nothing"
    with pytest.raises(EndOfData, match="task 'learn' is over: step 1 will not be taken"):
        b.learn()
    b.commit(0, [0, 1])
    with pytest.raises(StepRefused, match="task 'learn' is over: step 1 is not due; rewind it to go on"):
        b.commit(1, [])


def test_the_limits_hold_producers_back_as_before(bench: Make) -> None:
    b = bench(max_rows=4)
    finish(b.table, "learn")
    b.prompts(4, 1)
    assert not b.table.shelf.room(1, 0)
    b.roll(1, 0)
    b.score()
    assert b.table.shelf.room(1, 0)


def test_cells_that_are_lost_are_made_again_for_the_others_alone(bench: Make) -> None:
    b = bench(tasks=TASKS)
    b.prompts(1, 1)
    b.roll(1, 0)
    finish(b.table, "learn")
    lost = b.table.shelf.rows[0].blocks[1]
    assert lose(b.table, lambda block: block is lost, "gone") == ([0], [])
    assert b.roll(1, 0) == [0]
    assert b.table.flows["learn"].pending == 0


def test_a_node_that_comes_back_brings_nothing_back_for_it(bench: Make) -> None:
    b = bench(tasks=TASKS)
    finish(b.table, "learn")
    b.prompts(1, 1)
    park(b.table, "")
    unpark(b.table, "")
    assert (b.table.flows["learn"].ready, b.roll(1, 0)) == (0, [0])


def test_a_wait_in_vain_is_not_laid_at_the_gate(bench: Make) -> None:
    whole = (Task(name="roll", reads=("prompt",), writes=("response", "versions"), kind="begin"), *TASKS[1:])
    b = bench(tasks=whole)
    finish(b.table, "learn")
    assert why_no_lease(b.table, "roll", version=0) == (
        "no row of table 'samples' for task 'roll': no row is in the table; its producer owes them"
    )


def test_going_back_makes_it_live_again_with_the_same_batches(bench: Make) -> None:
    b = bench(rewindable=True, tasks=TASKS)
    b.prompts(6, 1)
    batches = []
    for step in range(2):
        b.roll(2, step)
        b.score()
        batches.append(b.learn())
        b.commit(step, batches[-1])
        b.table.publish(step + 1)
    finish(b.table, "learn")
    rewind(b.table, "learn", 0)
    assert b.table.over == {}
    for step, batch in enumerate(batches):
        assert b.learn() == batch
        b.commit(step, batch)
    assert b.roll(100, 2) == [4, 5], "the gate is closed again"


def test_a_step_that_was_to_come_again_is_made_of_what_is_there_later(bench: Make) -> None:
    """The trainer went back, and then took its last step before the one that it had been at."""
    b = bench(rewindable=True, units_per_step=1)
    b.prompts(3, 1)
    for step in range(2):
        b.roll(1, step)
        b.score()
        b.commit(step, b.learn())
        b.table.publish(step + 1)
    rewind(b.table, "learn", 1)
    finish(b.table, "learn")
    assert (list(b.table.shelf.rows), b.table.ledger.finished) == ([2], 1)
    rewind(b.table, "learn", 1)
    b.roll(1, 1)
    b.score()
    assert b.learn() == [2]
    b.commit(1, [2])
    assert (b.table.ledger.trained, b.table.ledger.lost(0)) == (2, 0)


def test_rows_made_meanwhile_are_trained_on_if_they_are_in_time(bench: Make) -> None:
    """Two rows a step at staleness 1: of 8 begun at version 0, steps 0 and 1 can take 4 in time."""
    b = bench(tasks=TASKS, staleness=1.0)
    finish(b.table, "learn")
    b.prompts(8, 1)
    b.roll(100, 0)
    b.score()
    rewind(b.table, "learn", 0)
    assert (b.table.window.outstanding, dict(b.table.window.due)) == (4, {1.0: 4})
    for step in range(2):
        batch = b.learn()
        assert batch == [2 * step, 2 * step + 1]
        b.commit(step, batch)
        b.table.publish(step + 1)
    assert b.learn() == []
    assert branch(b) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert (b.table.ledger.trained, b.table.ledger.finished, b.table.ledger.violations) == (4, 4, 0)
    assert b.table.ledger.lost(len(b.table.shelf.rows)) == 0


def test_a_row_left_out_may_be_begun_again_and_counts_for_nobody(bench: Make) -> None:
    b = bench(tasks=TASKS, units_per_step=1)
    finish(b.table, "learn")
    b.prompts(2, 1)
    lease, _ = b.lease("roll", 2, version=0)
    rewind(b.table, "learn", 0)
    assert b.table.window.outstanding == 1
    b.table.release(lease, [1], reason="drained", failed=False)
    b.write([0], ("response", "versions"), lease, floors=[0])
    b.table.ack(lease, [0])
    b.score()
    b.commit(0, b.learn())
    b.table.publish(1)
    assert b.roll(1, 1) == [1]
    b.score()
    assert (b.table.window.outstanding, b.table.flows["learn"].pending) == (0, 0)


def test_rows_go_on_without_work_that_nobody_needs(bench: Make) -> None:
    """Row 0 held by it, row 1 ready for it, row 2 not begun, row 3 put later."""
    b = bench(tasks=TASKS, policy=None, units_per_step=4)
    b.prompts(3, 1)
    b.roll(2, 0)
    lease, held = b.lease("branch", 1)
    assert held == [0]
    assert finish(b.table, "branch") == [lease]
    assert finish(b.table, "branch") == [], "once more changes nothing"
    with pytest.raises(EndOfData, match="task 'branch' is over: it is finished"):
        branch(b)
    b.prompts(1, 1, first=3)
    stats = table_stats(b.table, 0.0).tasks
    assert (stats["branch"].over, stats["branch"].done, stats["learn"].over) == (True, 4, False)
    b.roll(100, 0)
    b.score()
    assert b.learn() == [0, 1, 2, 3]
    b.commit(0, [0, 1, 2, 3])
    assert (b.table.shelf.rows, b.table.ledger.trained, b.table.ledger.lost(0)) == ({}, 4, 0)


def test_a_row_that_only_waited_for_it_leaves_at_once(bench: Make) -> None:
    b = bench(tasks=TASKS, units_per_step=1)
    b.prompts(1, 1)
    b.roll(1, 0)
    b.score()
    b.commit(0, b.learn())
    assert list(b.table.shelf.rows) == [0]
    finish(b.table, "branch")
    assert (b.table.shelf.rows, len(b.table.effects().freed)) == ({}, 3)


def test_the_gate_stands_where_another_task_than_the_trainer_is_over(bench: Make) -> None:
    b = bench(tasks=TASKS)
    finish(b.table, "branch")
    b.prompts(6, 1)
    assert b.roll(100, 0) == [0, 1]
    assert (b.table.window.outstanding, b.roll(100, 0)) == (2, [])


def test_work_that_goes_on_has_what_it_passed_over_and_nothing_twice(bench: Make) -> None:
    """Row 0 was branched, rows 1 and 2 were passed over, row 3 comes later."""
    b = bench(tasks=TASKS, units_per_step=4)
    b.prompts(3, 1)
    b.roll(3, 0)
    lease, _ = b.lease("branch", 1)
    b.table.ack(lease, None)
    finish(b.table, "branch")
    reopen(b.table, "branch")
    reopen(b.table, "branch")
    assert (b.table.over, branch(b)) == ({}, [1, 2])
    b.prompts(1, 1, first=3)
    b.roll(1, 0)
    assert branch(b) == [3]


def test_rollouts_that_are_over_may_begin_again_too(bench: Make) -> None:
    """Row 0 was begun and called back; the place that it has in the bound stays its own."""
    b = bench(tasks=TASKS, units_per_step=2)
    b.prompts(3, 1)
    lease, _ = b.lease("roll", 1, version=0)
    assert finish(b.table, "roll") == [lease]
    assert (b.table.window.outstanding, b.table.flows["roll"].pending) == (1, 0)
    reopen(b.table, "roll")
    assert b.roll(100, 0) == [0, 1]
    b.score()
    assert b.learn() == [0, 1]


def test_only_a_task_that_does_not_train_is_reopened(bench: Make) -> None:
    b = bench()
    finish(b.table, "learn")
    with pytest.raises(Refused, match="task 'learn' is of kind train; it goes on by `rewind` to the step"):
        reopen(b.table, "learn")


def test_cells_that_are_lost_are_not_made_again_for_work_that_is_over(bench: Make) -> None:
    b = bench(tasks=TASKS)
    b.prompts(1, 1)
    b.roll(1, 0)
    b.score()
    finish(b.table, "score")
    finish(b.table, "learn")
    lost = b.table.shelf.rows[0].blocks[2]
    assert lose(b.table, lambda block: block is lost, "gone") == ([0], [])
    assert b.table.flows["score"].pending == 0
    reopen(b.table, "score")
    assert b.score() == [0]
