"""Groups that come from rows of another table: what their loss means there."""

import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.transferqueue import Column, Origin, TableSpec, Task
from headrace.transferqueue.server.explain import why_no_lease
from headrace.transferqueue.state.over import finish, reopen
from headrace.transferqueue.state.records import Block, Entry
from headrace.transferqueue.state.table import Table

UID = 3 << 16 | 1
"""Row 1 of group 3."""
ORIGIN = Origin(table="solved", samples=4, prompts=2)
GROUP = ORIGIN.group_of(UID, 1)


class Pair:
    """Answers, each judged by a group of rows of a second table whose join writes the verdict back."""

    def __init__(
        self, *, origin: Origin = ORIGIN, owed: bool = True, joins: bool = True, reader: bool = False
    ) -> None:
        ids = itertools.count(1)
        self.now = 0.0
        reads = ("answer", "verdict") if joins else ("answer",)
        solved = TableSpec(
            name="solved",
            columns=tuple(Column(name=name, dtype="int32") for name in ("answer", "verdict")),
            tasks=(
                Task(name="branch", reads=("answer",)),
                Task(name="solve", reads=reads, kind="train"),
                *([Task(name="score", reads=reads)] if reader else []),
            ),
            owed={"verdict": "verdicts"} if owed and joins else {},
        )
        judged = TableSpec(
            name="judged",
            columns=tuple(Column(name=name, dtype="int32") for name in ("prompt", "mark")),
            tasks=(
                Task(name="judge", reads=("prompt",), writes=("mark",)),
                Task(name="verdicts", reads=("mark",), needs_full_group=True),
                Task(name="teach", reads=("mark",), kind="train"),
            ),
            origin=origin,
            max_attempts=2,
        )
        self.solved = Table(solved, lease_ids=ids)
        self.judged = Table(judged, lease_ids=ids, parent=self.solved)

    def put(self, table: Table, uids: list[int], column: str, **more: Any) -> None:
        block = Block(segment="s", offset=0, length=8)
        assert table.put(self.now, Entry(uids=uids, columns=table.bits[column], block=block, **more)) == []

    def answer(self, *uids: int) -> None:
        self.put(self.solved, list(uids), "answer", groups=[uid >> 16 for uid in uids])

    def ask(self, group: int, size: int = 2) -> list[int]:
        uids = [group << 16 | sample for sample in range(size)]
        self.put(self.judged, uids, "prompt", groups=[group] * size)
        return uids

    def mark(self, want: int = 100) -> None:
        held = self.judged.lease(self.now, "judge", want, holder="j", version=None)
        assert held is not None
        self.put(self.judged, list(held.rows), "mark", lease=held.id)
        self.judged.ack(held.id, None)


def test_a_group_that_is_lost_takes_the_row_that_waits_for_it_along() -> None:
    pair = Pair()
    pair.answer(UID - 1, UID)
    first, second = pair.ask(GROUP)
    pair.judged.drop([first], "filtered")
    assert list(pair.solved.shelf.rows) == [UID - 1, UID], "a part of the group is there"
    pair.judged.drop([second], "filtered")
    assert list(pair.solved.shelf.rows) == [UID - 1]
    assert pair.solved.ledger.dropped == {"its group in 'judged' was lost: filtered": 1}
    assert pair.solved.ledger.lost(1) == 0
    assert pair.solved.effects().room


def test_quarantine_is_a_loss_like_another() -> None:
    pair = Pair()
    pair.answer(UID)
    pair.ask(GROUP, 1)
    for _ in range(2):
        held = pair.judged.lease(0.0, "judge", 1, holder="j", version=None)
        assert held is not None
        pair.judged.release(held.id, None, reason="the endpoint is down")
    assert pair.judged.ledger.quarantined == 1
    assert pair.solved.ledger.dropped == {"its group in 'judged' was lost: quarantined by task 'judge'": 1}


@pytest.mark.parametrize("owed", [True, False])
def test_a_row_that_has_what_it_waited_for_stays(owed: bool) -> None:
    """The join has written, and the judge's trainer loses the rows later."""
    pair = Pair(owed=owed)
    pair.answer(UID)
    uids = pair.ask(GROUP)
    pair.mark()
    pair.put(pair.solved, [UID], "verdict")
    pair.judged.drop(uids, "timeline")
    assert (list(pair.solved.shelf.rows), pair.solved.flows["solve"].ready) == ([UID], 1)


def test_a_column_that_nobody_is_known_to_owe_counts_as_owed() -> None:
    pair = Pair(owed=False)
    pair.answer(UID)
    pair.judged.drop(pair.ask(GROUP), "filtered")
    assert pair.solved.shelf.rows == {}


def test_a_row_of_which_nothing_comes_back_stays() -> None:
    """A second trainer's copy of the rows is lost: the first has all that it reads."""
    pair = Pair(joins=False)
    pair.answer(UID)
    pair.judged.drop(pair.ask(GROUP), "filtered")
    assert list(pair.solved.shelf.rows) == [UID]


def test_a_row_stays_where_nobody_will_read_the_column() -> None:
    pair = Pair()
    pair.answer(UID)
    finish(pair.solved, "solve")
    pair.judged.drop(pair.ask(GROUP), "filtered")
    assert list(pair.solved.shelf.rows) == [UID]


def test_rows_that_lack_what_a_task_owes_go_where_it_was_over() -> None:
    """Two groups leave the second table while its join is over; one had been joined before."""
    pair = Pair()
    pair.answer(UID - 1, UID)
    pair.ask(ORIGIN.group_of(UID - 1, 0))
    pair.ask(GROUP)
    pair.mark()
    pair.put(pair.solved, [UID - 1], "verdict")
    for task in ("verdicts", "teach"):
        finish(pair.judged, task)
    assert (pair.judged.shelf.rows, list(pair.solved.shelf.rows)) == ({}, [UID - 1, UID])
    reopen(pair.judged, "verdicts")
    assert list(pair.solved.shelf.rows) == [UID - 1]
    assert pair.solved.ledger.dropped == {"passed over while task 'verdicts' was over": 1}


def test_rows_that_lack_what_they_were_owed_go_where_their_reader_was_over() -> None:
    """Their group was lost meanwhile, when nobody asked for the column."""
    pair = Pair(reader=True)
    pair.answer(UID - 1, UID)
    finish(pair.solved, "solve")
    finish(pair.solved, "score")
    pair.judged.drop(pair.ask(GROUP), "filtered")
    pair.put(pair.solved, [UID - 1], "verdict")
    reopen(pair.solved, "score")
    assert (list(pair.solved.shelf.rows), pair.solved.flows["score"].ready) == ([UID - 1], 1)
    assert pair.solved.ledger.dropped == {"passed over while task 'score' was over": 1}


def test_a_row_that_is_not_there_any_more_is_nothing() -> None:
    pair = Pair()
    pair.answer(UID)
    uids = pair.ask(GROUP)
    pair.solved.drop([UID], "first")
    assert list(pair.judged.shelf.rows) == uids, "a row that leaves takes no group along"
    pair.judged.drop(uids, "then")
    assert pair.solved.ledger.dropped == {"first": 1}


def test_a_loss_goes_up_through_every_table() -> None:
    pair = Pair()
    spec = TableSpec(
        name="checked",
        columns=(Column(name="x", dtype="int32"),),
        tasks=(Task(name="check", reads=("x",)),),
        origin=Origin(table="judged", samples=1, prompts=1),
    )
    checked = Table(spec, lease_ids=itertools.count(100), parent=pair.judged)
    pair.answer(UID)
    (child,) = pair.ask(GROUP, 1)
    group = Origin(table="judged", samples=1, prompts=1).group_of(child, 0)
    pair.put(checked, [group << 16], "x", groups=[group])
    checked.drop([group << 16], "dead link")
    assert list(pair.judged.shelf.rows) == [child], "the judge waits for nothing from there"
    pair.judged.drop([child], "after all")
    assert pair.solved.shelf.rows == {}


def test_a_wait_in_vain_names_the_task_of_the_other_table() -> None:
    pair = Pair()
    pair.answer(UID)
    tables = dict.fromkeys(pair.judged.flows, pair.judged)
    assert why_no_lease(pair.solved, "solve", version=None, tables=tables) == (
        "no row of table 'solved' for task 'solve': 1 rows lack 'verdict', owed by task 'verdicts' "
        "(from table 'judged')"
    )


class FamilyMachine(RuleBasedStateMachine):
    """Rows of two tables come and go in any order: none waits for a group that is lost."""

    @initialize(samples=st.integers(1, 3), prompts=st.integers(1, 2))
    def make(self, samples: int, prompts: int) -> None:
        self.origin = Origin(table="solved", samples=samples, prompts=prompts)
        self.pair = Pair(origin=self.origin)
        self.groups = 0
        self.asked: dict[int, int] = {}
        """Group by parent."""
        self.joined: set[int] = set()

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        size = data.draw(st.integers(1, self.origin.samples))
        self.pair.answer(*[self.groups << 16 | sample for sample in range(size)])
        self.groups += 1

    @precondition(lambda self: self.pair.solved.shelf.rows.keys() - self.asked)
    @rule(data=st.data(), size=st.integers(1, 3))
    def ask(self, data: st.DataObject, size: int) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pair.solved.shelf.rows.keys() - self.asked)))
        self.asked[uid] = self.origin.group_of(uid, data.draw(st.integers(0, self.origin.prompts - 1)))
        self.pair.ask(self.asked[uid], size)

    @precondition(lambda self: self.pair.judged.flows["judge"].ready)
    @rule(want=st.integers(1, 4), fails=st.booleans())
    def judge(self, want: int, fails: bool) -> None:
        if not fails:
            self.pair.mark(want)
            return
        held = self.pair.judged.lease(0.0, "judge", want, holder="j", version=None)
        assert held is not None
        self.pair.judged.release(held.id, None, reason="down")

    @rule()
    def join(self) -> None:
        held = self.pair.judged.lease(0.0, "verdicts", 1, holder="v", version=None)
        if held is None:
            return
        uid = self.origin.uid_of(next(iter(held.rows.values())).group.number)
        assert self.asked[uid] == next(iter(held.rows.values())).group.number
        if uid in self.pair.solved.shelf.rows:
            self.pair.put(self.pair.solved, [uid], "verdict")
            self.joined.add(uid)
        self.pair.judged.ack(held.id, None)

    @precondition(lambda self: self.pair.judged.shelf.rows)
    @rule(data=st.data())
    def drop_a_judgement(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pair.judged.shelf.rows)))
        self.pair.judged.drop([uid], "test")

    @precondition(lambda self: self.pair.solved.shelf.rows)
    @rule(data=st.data())
    def drop_an_answer(self, data: st.DataObject) -> None:
        self.pair.solved.drop([data.draw(st.sampled_from(sorted(self.pair.solved.shelf.rows)))], "test")

    @invariant()
    def nobody_waits_for_what_will_not_come(self) -> None:
        if not hasattr(self, "pair"):
            return
        there = {row.group.number for row in self.pair.judged.shelf.rows.values()}
        for uid in self.pair.solved.shelf.rows.keys() & self.asked:
            assert uid in self.joined or self.asked[uid] in there
        for table in (self.pair.solved, self.pair.judged):
            assert table.ledger.lost(len(table.shelf.rows) - table.shelf.consumed) == 0


FamilyMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrderOfLosses = FamilyMachine.TestCase
