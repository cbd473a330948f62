"""Any sequence of events against a plain model: rows conserved, leases exclusive, the bound kept."""

import itertools
import math
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.transferqueue import Column, QueueError, TableSpec, Task
from headrace.transferqueue.state.over import finish, reopen
from headrace.transferqueue.state.parking import park, unpark
from headrace.transferqueue.state.records import Block, Entry
from headrace.transferqueue.state.reissue import lose
from headrace.transferqueue.state.rewind import rewind
from headrace.transferqueue.state.table import Table

HOLDERS = st.sampled_from(["a", "b"])
COLUMNS = tuple(Column(name=name, dtype="int32") for name in ("prompt", "answer", "score"))


class QueueMachine(RuleBasedStateMachine):
    """The model is three dictionaries: who holds a row for which task, what is written, how it ended."""

    @initialize(
        staleness=st.sampled_from([0.0, 0.5, 1.0, 2.0, math.inf]),
        units=st.integers(1, 3),
        whole=st.booleans(),
    )
    def make(self, staleness: float, units: int, whole: bool) -> None:
        tasks = (
            Task(name="roll", reads=("prompt",), writes=("answer",), kind="begin"),
            Task(name="mark", reads=("answer",), writes=("score",)),
            Task(name="learn", reads=("score",), kind="train", needs_full_group=whole),
        )
        spec = TableSpec(
            name="t",
            columns=COLUMNS,
            tasks=tasks,
            policy="p",
            units_per_step=units,
            staleness=staleness,
            max_attempts=2,
            lease_s=10.0,
        )
        self.table = Table(spec, lease_ids=itertools.count(1))
        self.whole, self.staleness = whole, staleness
        self.now = 0.0
        self.groups = 0
        self.created: set[int] = set()
        self.held: dict[tuple[str, int], tuple[int, str]] = {}
        self.versions: dict[int, int] = {}
        self.trained: set[int] = set()
        self.dropped: set[int] = set()
        self.node = ""
        self.live_blocks: list[Block] = []
        self.freed = 0

    def entry(self, uids: list[int], column: str, **more: Any) -> Entry:
        self.live_blocks.append(Block(segment="s", offset=0, length=8, node=self.node))
        return Entry(uids=uids, columns=self.table.bits[column], block=self.live_blocks[-1], **more)

    @rule(size=st.integers(1, 3))
    def put_group(self, size: int) -> None:
        uids = [self.groups * 4 + index for index in range(size)]
        self.table.put(self.now, self.entry(uids, "prompt", groups=[self.groups] * size))
        self.created.update(uids)
        self.groups += 1

    @rule(
        task=st.sampled_from(["roll", "mark", "learn"]),
        want=st.integers(1, 5),
        holder=HOLDERS,
        lag=st.integers(0, 2),
    )
    def lease(self, task: str, want: int, holder: str, lag: int) -> None:
        if task in self.table.over:
            return
        version = max(0, self.table.newest_version - lag) if task == "roll" else None
        held = self.table.lease(self.now, task, want, holder=holder, version=version)
        for uid in [] if held is None else list(held.rows):
            assert (task, uid) not in self.held, "a row is leased to one holder at a time"
            assert uid not in self.trained | self.dropped
            assert held is not None
            reads = self.table.flows[task].reads
            nodes = {block.node for block in held.rows[uid].blocks if block.columns & reads}
            assert not nodes & self.table.away, "nobody is handed what cannot be read"
            self.held[task, uid] = (held.id, holder)
            if task == "roll":
                assert version is not None
                self.versions[uid] = version

    @precondition(lambda self: self.held)
    @rule(data=st.data(), end=st.sampled_from(["write", "fail", "drain"]))
    def end_lease(self, data: st.DataObject, end: str) -> None:
        task, uid = data.draw(st.sampled_from(sorted(self.held)))
        lease, _ = self.held[task, uid]
        if end == "write" and task != "learn":
            column = "answer" if task == "roll" else "score"
            assert self.table.put(self.now, self.entry([uid], column, lease=lease)) == []
            self.table.ack(lease, [uid])
        elif task != "learn" or not self.whole:
            self.table.release(lease, [uid], reason=end, failed=end == "fail")
        else:
            return
        del self.held[task, uid]

    @rule(node=st.sampled_from(["", "b"]))
    def write_on(self, node: str) -> None:
        self.node = node

    @rule()
    def cut_off_or_bring_back(self) -> None:
        (unpark if self.table.away else park)(self.table, "b")

    @rule()
    def lose_the_node(self) -> None:
        """In memory: what it held is written again, or its rows are dropped."""
        unpark(self.table, "b")
        _, dropped = lose(self.table, lambda block: block.node == "b", "node b was lost")
        self.dropped.update(dropped)
        rows, flows = self.table.shelf.rows, self.table.flows
        self.held = {
            (task, uid): lease
            for (task, uid), lease in self.held.items()
            if uid in rows and rows[uid].leased & flows[task].bit
        }

    @rule(task=st.sampled_from(["roll", "mark", "learn"]))
    def finish(self, task: str) -> None:
        """The trainer has taken its last step, or nobody needs what the task makes, for now."""
        finish(self.table, task)
        self.held = {key: value for key, value in self.held.items() if key[0] != task}

    @precondition(lambda self: self.table.over)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.table.over)))
        if task == "learn":
            rewind(self.table, "learn", self.table.ledger.step)
        else:
            reopen(self.table, task)

    @rule(holder=HOLDERS)
    def evict(self, holder: str) -> None:
        self.table.evict(holder, "killed")
        self.held = {key: value for key, value in self.held.items() if value[1] != holder}

    @rule()
    def expire(self) -> None:
        self.now += 11.0
        self.table.expire(self.now)
        self.held.clear()

    @precondition(lambda self: self.created - self.trained)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.created - self.trained)))
        try:
            self.table.drop([uid], "test")
        except QueueError:
            return
        self.dropped.add(uid)
        self.held = {key: value for key, value in self.held.items() if key[1] != uid}

    @rule(holder=HOLDERS)
    def commit(self, holder: str) -> None:
        uids = [uid for (task, uid), (_, by) in self.held.items() if task == "learn" and by == holder]
        step = self.table.ledger.step
        try:
            self.table.commit("learn", step, uids, holder=holder)
        except QueueError:
            return
        for uid in uids:
            del self.held["learn", uid]
            assert uid not in self.trained, "no row is in two commits"
            assert (
                step - self.versions[uid] <= math.ceil(self.staleness) if self.staleness < math.inf else True
            )
        self.trained.update(uids)
        self.table.publish(step + 1)

    @invariant()
    def leases_and_rows_are_conserved(self) -> None:
        if not hasattr(self, "table"):
            return
        in_leases = [(lease.task, uid) for lease in self.table.leases for uid in lease.rows]
        assert len(in_leases) == len(set(in_leases)) == len(self.held)
        shelf, ledger = self.table.shelf, self.table.ledger
        assert ledger.violations == 0
        assert ledger.lost(len(shelf.rows) - shelf.consumed) == 0
        assert ledger.trained == len(self.trained)

    @invariant()
    def a_task_that_is_over_waits_for_nothing(self) -> None:
        if not hasattr(self, "table"):
            return
        for name, flow in self.table.flows.items():
            passed = [row for row in self.table.shelf.rows.values() if row.passed & flow.bit]
            assert all(row.done & flow.bit for row in passed)
            if name in self.table.over:
                assert (flow.pending, flow.ready, flow.leased.total()) == (0, 0, 0)
            elif flow.task.kind != "train":
                assert not passed

    @invariant()
    def the_counts_match_the_units(self) -> None:
        if not hasattr(self, "table"):
            return
        window = self.table.window
        assert window is not None
        units = {id(row.unit): row.unit for row in self.table.shelf.rows.values() if row.unit.rows}
        assert window.outstanding == sum(unit.begun and not unit.taken for unit in units.values())
        assert window.taken == sum(bool(unit.taken) for unit in units.values())
        assert 0 <= window.places <= window.units_per_step

    @invariant()
    def blocks_are_freed_once_and_the_rest_is_live(self) -> None:
        if not hasattr(self, "table"):
            return
        self.freed += len(self.table.effects().freed)
        live = {id(block) for row in self.table.shelf.rows.values() for block, _ in row.cells}
        assert len(live) + self.freed == len(self.live_blocks)
        assert self.table.shelf.bytes == 8 * len(live)


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestAnySequenceOfEvents = QueueMachine.TestCase
