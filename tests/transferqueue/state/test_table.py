from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import EndOfData, LeaseLost, Refused, RowsGone, SchemaError, StepRefused, Task
from headrace.transferqueue.state.records import Entry

Make = Callable[..., Any]


def test_a_row_is_ready_for_a_task_once_the_columns_it_reads_are_there(bench: Make) -> None:
    b = bench()
    b.prompts(2, 2)
    assert b.score() == []
    assert b.roll(3, 0) == [0, 1, 2]
    assert b.score() == [0, 1, 2]
    assert b.score() == []


def test_a_lease_does_not_wait_to_be_filled(bench: Make) -> None:
    b = bench()
    b.prompts(1, 1)
    assert b.lease("roll", 4, version=0) == (1, [0])


def test_nothing_is_leased_until_a_whole_group_is_there(bench: Make) -> None:
    """Groups 0..3 and 4..7, rows 1..6 scored, a group of 4 asked for (B06)."""
    b = bench()
    b.prompts(2, 4)
    b.roll(8, 0)
    b.write([1, 2, 3, 4, 5, 6], ("reward",))
    assert b.learn(4) == []
    b.write([0], ("reward",))
    assert b.learn(4) == [0, 1, 2, 3]
    assert b.learn(4) == []


def test_a_group_larger_than_wanted_is_still_leased_whole(bench: Make) -> None:
    b = bench()
    b.prompts(1, 4)
    b.roll(4, 0)
    b.score()
    assert b.learn(1) == [0, 1, 2, 3]


def test_rows_of_a_dead_consumer_come_back_once_with_a_second_attempt(bench: Make) -> None:
    """B01."""
    b = bench(staleness=1.0)
    b.prompts(4, 1)
    assert b.lease("roll", 4, holder="dead", version=0) == (1, [0, 1, 2, 3])
    assert b.lease("roll", 4, holder="other", version=0) == (0, [])
    b.now = 9.9
    assert b.table.expire(b.now) == []
    b.now = 10.0
    assert b.table.expire(b.now) == [1]
    assert b.lease("roll", 4, holder="other", version=0) == (2, [0, 1, 2, 3])
    assert [row.failures for row in b.table.shelf.rows.values()] == [{0: 1}] * 4
    with pytest.raises(LeaseLost, match="lease 1 has ended"):
        b.write([0], ("response", "versions"), 1, floors=[0])


def test_a_renewed_lease_does_not_expire(bench: Make) -> None:
    b = bench()
    b.prompts(1, 1)
    lease, _ = b.lease("roll", 1, version=0)
    assert b.table.leases.renew(8.0, lease)
    assert b.table.leases.next_deadline() == 18.0
    assert b.table.expire(10.0) == []
    assert b.table.expire(18.0) == [lease]
    assert not b.table.leases.renew(18.0, lease)


def test_evicting_a_holder_ends_its_leases_at_once(bench: Make) -> None:
    b = bench()
    b.prompts(2, 1)
    b.lease("roll", 1, holder="a", version=0)
    b.lease("roll", 1, holder="b", version=0)
    assert b.table.evict("a", "killed") == 1
    assert b.lease("roll", 2, holder="c", version=0)[1] == [0]


def test_a_row_that_was_written_before_its_holder_died_is_done(bench: Make) -> None:
    b = bench()
    b.prompts(1, 1)
    lease, _ = b.lease("roll", 1, holder="dead", version=0)
    b.write([0], ("response", "versions"), lease, floors=[0])
    assert b.table.evict("dead", "killed") == 0
    assert b.lease("roll", 1, version=0) == (0, [])
    assert b.score() == [0]


def test_a_row_that_keeps_failing_is_quarantined_and_its_group_goes_on(bench: Make) -> None:
    b = bench(max_attempts=2)
    b.prompts(1, 3)
    for attempt in range(2):
        lease, uids = b.lease("roll", 1, version=0)
        assert uids == [0]
        b.table.release(lease, None, reason=f"error {attempt}")
    assert b.table.ledger.quarantine == {0: "roll: error 1"}
    assert b.roll(3, 0) == [1, 2]
    b.score()
    assert b.learn() == [1, 2]


def test_a_group_whose_rows_are_all_quarantined_leaves_the_counts(bench: Make) -> None:
    b = bench(max_attempts=1)
    b.prompts(3, 1)
    lease, _ = b.lease("roll", 2, version=0)
    assert b.lease("roll", 1, version=0) == (0, [])
    b.table.release(lease, [0], reason="poison")
    assert b.table.window.outstanding == 1
    assert b.lease("roll", 1, version=0)[1] == [2]


def test_rows_handed_back_without_failing_keep_their_attempts(bench: Make) -> None:
    b = bench(max_attempts=1)
    b.prompts(1, 1)
    for _ in range(3):
        lease, uids = b.lease("roll", 1, version=0)
        assert uids == [0]
        b.table.release(lease, None, reason="drained", failed=False)
    assert b.table.ledger.quarantined == 0


def test_a_carry_goes_to_the_next_lease_and_keeps_the_version(bench: Make) -> None:
    b = bench(staleness=1.0)
    b.prompts(2, 1)
    lease, _ = b.lease("roll", 2, version=0)
    b.table.publish(1)
    b.table.release(lease, None, reason="swapped", failed=False, carry={0: b"tokens"})
    _, uids = b.lease("roll", 2, version=1)
    rows = [b.table.shelf.rows[uid] for uid in uids]
    assert [(row.uid, row.carry, row.version) for row in rows] == [(0, b"tokens", 0), (1, None, 1)]
    assert [row.unit.deadline for row in rows] == [1, 1]


def test_a_returned_row_goes_to_no_replica_behind_it(bench: Make) -> None:
    b = bench(staleness=1.0)
    b.table.publish(1)
    b.prompts(1, 2)
    lease, _ = b.lease("roll", 1, version=1)
    b.table.release(lease, None, reason="stopped", failed=False)
    assert b.lease("roll", 2, version=0) == (0, [])
    assert b.lease("roll", 2, version=1)[1] == [0, 1]


def test_a_begun_group_passes_the_gate_once_for_all_its_rows(bench: Make) -> None:
    b = bench(units_per_step=1)
    b.prompts(2, 3)
    assert b.lease("roll", 2, version=0)[1] == [0, 1]
    assert b.lease("roll", 2, version=0)[1] == [2]
    assert b.lease("roll", 2, version=0) == (0, [])


@pytest.mark.parametrize(("staleness", "begun"), [(0.0, 2), (0.5, 3), (1.0, 4), (2.0, 6), (float("inf"), 9)])
def test_the_gate_holds_rows_back_beyond_the_staleness(bench: Make, staleness: float, begun: int) -> None:
    b = bench(staleness=staleness)
    b.prompts(9, 1)
    assert len(b.roll(9, 0)) == begun


def test_a_commit_opens_the_gate_for_the_next_version_only(bench: Make) -> None:
    b = bench()
    b.prompts(4, 1)
    b.roll(4, 0)
    b.score()
    assert b.learn() == [0, 1]
    b.commit(0, [0, 1])
    b.table.publish(1)
    assert b.roll(4, 0) == []
    assert b.roll(4, 1) == [2, 3]


def test_the_trainer_waits_for_the_straggler_that_is_due(bench: Make) -> None:
    b = bench(staleness=1.0)
    b.prompts(6, 1)
    slow, uids = b.lease("roll", 2, holder="slow", version=0)
    assert uids == [0, 1]
    assert b.roll(2, 0) == [2, 3]
    b.score()
    assert b.learn() == [2, 3]
    b.commit(0, [2, 3])
    b.table.publish(1)
    assert b.roll(2, 1) == [4, 5]
    b.score()
    assert b.learn() == []
    b.write([0, 1], ("response", "versions"), slow, floors=[0, 0])
    b.score()
    assert b.learn() == [0, 1]
    b.commit(1, [0, 1])
    assert dict(b.table.ledger.staleness) == {0: 2, 1: 2}
    assert b.table.ledger.violations == 0


def test_units_due_first_are_taken_first_then_the_lowest_group(bench: Make) -> None:
    b = bench(staleness=2.0, units_per_step=2)
    b.table.publish(1)
    b.prompts(4, 1)
    assert b.roll(2, 1) == [0, 1]
    assert b.roll(2, 0) == [2, 3]
    b.score()
    assert b.learn(1) == [2]
    assert b.learn(1) == [3]


def test_places_of_a_dead_trainer_come_back(bench: Make) -> None:
    b = bench()
    b.prompts(2, 1)
    b.roll(2, 0)
    b.score()
    assert b.learn(holder="dead") == [0, 1]
    assert b.table.window.places == 0
    b.table.evict("dead", "killed")
    assert b.table.window.places == 2
    assert b.learn(holder="t") == [0, 1]
    b.commit(0, [0, 1])
    assert b.table.ledger.trained == 2


def test_a_filtered_group_gives_its_place_to_another(bench: Make) -> None:
    b = bench(units_per_step=1)
    b.prompts(2, 2)
    b.roll(4, 0)
    b.score()
    assert b.learn() == [0, 1]
    b.table.drop([0, 1], "all rewards equal")
    assert b.roll(4, 0) == [2, 3]
    b.score()
    assert b.learn() == [2, 3]
    assert b.table.ledger.dropped == {"all rewards equal": 2}


def test_the_same_commit_again_changes_nothing_and_another_is_refused(bench: Make) -> None:
    b = bench(units_per_step=1)
    b.prompts(2, 1)
    b.roll(1, 0)
    b.score()
    b.learn()
    b.commit(0, [0])
    b.commit(0, [0])
    assert b.table.ledger.trained == 1
    with pytest.raises(StepRefused, match="step 0 is committed already"):
        b.commit(0, [1])
    with pytest.raises(StepRefused, match="step 5 is not due; the next to commit is 1"):
        b.commit(5, [1])


def test_no_row_is_trained_on_twice(bench: Make) -> None:
    b = bench(units_per_step=1)
    b.prompts(2, 1)
    b.roll(1, 0)
    b.score()
    b.learn()
    b.commit(0, [0])
    with pytest.raises(RowsGone, match="nothing is trained on twice"):
        b.commit(1, [0])
    assert b.table.ledger.duplicated == 1
    with pytest.raises(RowsGone, match="have been and gone"):
        b.prompts(1, 1)


def test_a_commit_of_half_a_group_is_refused(bench: Make) -> None:
    b = bench(units_per_step=1)
    b.prompts(1, 2)
    b.roll(2, 0)
    b.score()
    b.learn()
    with pytest.raises(StepRefused, match="step 0 has 1 of the 2 rows of group 0"):
        b.commit(0, [0])


def test_a_commit_by_who_does_not_hold_the_rows_is_refused(bench: Make) -> None:
    b = bench(units_per_step=1)
    b.prompts(1, 1)
    b.roll(1, 0)
    b.score()
    b.learn(holder="t")
    with pytest.raises(LeaseLost, match=r"rows \[0\] are not leased by 'ghost'"):
        b.commit(0, [0], holder="ghost")


def test_payload_is_freed_by_the_commit_but_not_before_another_reader_has_read_it(bench: Make) -> None:
    """B09."""
    tasks = (
        Task(name="roll", reads=("prompt",), writes=("response", "versions"), kind="begin"),
        Task(name="learn", reads=("response",), kind="train"),
        Task(name="log", reads=("response",)),
    )
    b = bench(tasks=tasks, units_per_step=1)
    b.prompts(1, 1)
    b.roll(1, 0)
    b.learn()
    b.table.effects()
    b.commit(0, [0])
    assert b.table.effects().freed == ()
    assert b.table.shelf.bytes == 200
    lease, uids = b.lease("log", 1)
    assert uids == [0]
    b.table.ack(lease, None)
    assert len(b.table.effects().freed) == 2
    assert b.table.shelf.bytes == 0
    assert b.table.ledger.lost(0) == 0


def test_a_second_write_of_a_cell_asks_for_a_comparison(bench: Make) -> None:
    """B08: the table names the rows; the client compares the bytes."""
    b = bench()
    b.prompts(2, 1)
    b.roll(1, 0)
    b.write([0], ("reward",))
    assert b.write([0], ("reward",)) == [0]
    assert b.write([0], ("reward",), known_same=True) == []


def test_a_write_under_a_lease_has_all_columns_of_its_task(bench: Make) -> None:
    b = bench()
    b.prompts(1, 1)
    lease, _ = b.lease("roll", 1, version=0)
    with pytest.raises(
        SchemaError, match="task 'roll' writes response, versions, all in one put; got response"
    ):
        b.write([0], ("response",), lease)


def test_an_ack_before_the_columns_are_written_is_refused(bench: Make) -> None:
    b = bench()
    b.prompts(1, 1)
    lease, _ = b.lease("roll", 1, version=0)
    with pytest.raises(Refused, match="lack what task 'roll' owes"):
        b.table.ack(lease, None)


def test_a_token_older_than_the_begin_of_its_row_is_refused(bench: Make) -> None:
    b = bench(staleness=1.0)
    b.table.publish(1)
    b.prompts(1, 1)
    lease, _ = b.lease("roll", 1, version=1)
    with pytest.raises(SchemaError, match="version 0, older than version 1"):
        b.write([0], ("response", "versions"), lease, floors=[0])
    with pytest.raises(SchemaError, match="version 7; the newest published is 1"):
        b.write([0], ("response", "versions"), lease, floors=[7])


def test_columns_written_at_different_times_must_agree_in_length(bench: Make) -> None:
    b = bench()
    b.prompts(1, 1)
    lease, _ = b.lease("roll", 1, version=0)
    b.table.shelf.rows[0].lengths = {"response": 3}
    with pytest.raises(SchemaError, match="row 0: 3 entries are written and 2 got"):
        b.write([0], ("response", "versions"), lease, floors=[0], lengths={"response": [2]})


def test_the_end_is_told_to_who_can_get_nothing_more(bench: Make) -> None:
    b = bench(units_per_step=2)
    b.prompts(1, 1)
    lease, uids = b.lease("roll", 1, version=0)
    b.table.end()
    assert b.lease("roll", 1, holder="other", version=0) == (0, [])
    b.write(uids, ("response", "versions"), lease, floors=[0])
    b.table.ack(lease, None)
    with pytest.raises(EndOfData, match="has no further row for task 'roll'"):
        b.lease("roll", 1, version=0)
    b.score()
    assert b.learn() == [0]
    with pytest.raises(EndOfData):
        b.learn()
    b.commit(0, [0])
    with pytest.raises(Refused, match="takes no new rows"):
        b.prompts(1, 1, first=5)


def test_a_version_that_was_never_published_begins_nothing(bench: Make) -> None:
    b = bench()
    b.prompts(1, 1)
    with pytest.raises(StepRefused, match="version 3 of policy 'actor' is not published; newest is 0"):
        b.lease("roll", 1, version=3)


def test_a_raised_staleness_opens_the_gate_and_wakes_who_waits(bench: Make) -> None:
    b = bench()
    b.prompts(4, 1)
    b.roll(4, 0)
    b.table.effects()
    b.table.set_staleness(1.0)
    assert "roll" in b.table.effects().tasks
    assert b.roll(4, 0) == [2, 3]


def test_only_tasks_that_an_event_concerns_are_woken(bench: Make) -> None:
    b = bench()
    b.prompts(1, 2)
    assert b.table.effects().tasks == ("roll",)
    b.roll(2, 0)
    assert b.table.effects().tasks == ("score",)
    b.score()
    assert b.table.effects().tasks == ("learn",)


def test_a_short_step_is_refused_while_a_unit_due_in_it_is_out(bench: Make) -> None:
    b = bench(units_per_step=2)
    b.prompts(2, 1)
    b.roll(1, 0)
    assert b.lease("roll", 1, holder="slow", version=0)[1] == [1]
    b.score()
    assert b.learn() == [0]
    with pytest.raises(
        StepRefused, match="step 0 has 1 of 2 units, and units that must be in it are still out"
    ):
        b.commit(0, [0])
    b.table.drop([1], "gave up")
    b.commit(0, [0])
    assert b.table.window.consumed == 2


def test_rows_of_a_group_stand_together_though_the_put_mixed_them(bench: Make) -> None:
    b = bench(staleness=9)
    entry = Entry(uids=[4, 1, 2, 3, 0], columns=b.bits("prompt"), block=b.block(), groups=[7, 5, 7, 5, 9])
    b.table.put(0.0, entry)
    assert b.lease("roll", 5, version=0)[1] == [4, 2, 1, 3, 0]
    assert {row.unit.rows for row in b.table.shelf.rows.values()} == {1, 2}
