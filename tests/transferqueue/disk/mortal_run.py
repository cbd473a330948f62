"""Random operations on a mortal queue, and a plain model of what was acknowledged."""

import math
import random
from pathlib import Path
from typing import Any

from headrace.transferqueue import Column, Refused, TableSpec, Task, WaitTimeout
from headrace.transferqueue.disk.chronicle import blocks_of
from headrace.transferqueue.link.wire import pack_ints, unpack_ints
from tests.transferqueue.disk.mortal import CELL_BYTES, Crash, MortalQueue

WRITES = {"roll": "answer", "mark": "score"}


class Run:
    """A producer, two workers and a trainer on one table; what was acknowledged is noted in plain sets."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.staleness = self.random.choice([0.0, 0.5, 1.0, 2.0, math.inf])
        self.whole = self.random.random() < 0.5
        self.units = self.random.randint(1, 3)
        self.queue = MortalQueue(directory)
        self.written: dict[tuple[int, str], bytes] = {}
        self.leases: dict[int, tuple[str, str, list[int]]] = {}
        self.begun: dict[int, int] = {}
        self.lost: set[int] = set()
        self.dropped: set[int] = set()
        self.steps: list[list[int]] = []
        self.recorded: dict[int, list[int]] = {}
        self.changed: set[int] = set()
        """Recorded steps that cannot be made again as they were: a row was quarantined."""
        self.covered = 0
        self.checksums: dict[int, int] = {}
        self.batch: list[int] = []
        self.forks = self.groups = self.rewinds = self.finishes = 0
        self.over = False
        """The trainer has taken its last step, until a rewind."""
        self.crash: Crash = "no"
        self.queue.ask("source", "create", {"spec": self.spec().to_wire()})

    def spec(self) -> TableSpec:
        tasks = (
            Task(name="roll", reads=("prompt",), writes=("answer",), kind="begin"),
            Task(name="mark", reads=("answer",), writes=("score",)),
            Task(name="learn", reads=("score",), kind="train", needs_full_group=self.whole),
        )
        return TableSpec(
            name="t",
            columns=tuple(Column(name=name, dtype="int32") for name in ("prompt", "answer", "score")),
            tasks=tasks,
            policy="p",
            units_per_step=self.units,
            staleness=self.staleness,
            max_rows=40,
            max_attempts=4,
            lease_s=10.0,
            rewindable=True,
        )

    @property
    def table(self) -> Any:
        return self.queue.hub.tables["t"]

    def ask(self, client: str, operation: str, /, **fields: Any) -> Any:
        crash, self.crash = self.crash, "no"
        return self.queue.ask(client, operation, fields, crash)

    def act(self, crash: Crash) -> None:
        """One random operation, with a crash inside of it or not."""
        self.crash = crash
        choices = [
            self.produce,
            self.lease,
            self.lease,
            self.end_lease,
            self.end_lease,
            *([self.go_on] if self.over else [self.train, self.train]),
        ]
        rare = [self.drop, self.evict, self.expire, self.checkpoint, self.rewind, self.finish]
        self.random.choice(rare if self.random.random() < 0.1 else choices)()
        self.crash = "no"

    def put(self, holder: str, uids: list[int], column: str, **more: Any) -> None:
        content = f"{uids[0]:07d}{column[0]}".encode()
        fields = {
            **self.queue.block(holder, content),
            **{
                "table": "t",
                "uids": pack_ints(uids),
                "columns": [column],
                "lengths": {},
                "known_same": False,
            },
            **{"groups": None, "lease": None, "floors": None, "timeout_s": 0.0, **more},
        }
        assert self.ask(holder, "put", **fields) == {}
        self.written.update(dict.fromkeys(((uid, column) for uid in uids), content))

    def produce(self) -> None:
        uids = [self.groups * 4 + index for index in range(self.random.randint(1, 3))]
        groups = pack_ints([self.groups] * len(uids))
        try:
            self.put("source", uids, "prompt", groups=groups)
        except WaitTimeout:
            assert len(self.table.shelf.rows) + len(uids) > 40
            return
        self.groups += 1

    def lease(self) -> None:
        task, holder = self.random.choice(["roll", "mark"]), self.random.choice("ab")
        version = max(0, self.table.newest_version - self.random.randint(0, 2))
        fields = {"version": version if task == "roll" else None, "timeout_s": 0.0}
        try:
            if task == "roll" and self.forks:
                self.ask(holder, "published", policy="p", after=-1, timeout_s=0.0)
            body = self.ask(holder, "lease", task=task, want=self.random.randint(1, 5), **fields)
        except WaitTimeout:
            return
        uids = unpack_ints(body["uids"])
        self.leases[body["lease"]] = (holder, task, uids)
        if task == "roll":
            self.begun.update(dict.fromkeys(uids, version))

    def end_lease(self) -> None:
        mine = [lease for lease, (_, task, _) in self.leases.items() if task != "learn"]
        if not mine:
            return
        lease = self.random.choice(mine)
        holder, task, uids = self.leases[lease]
        end = self.random.choice(["write", "write", "write", "fail", "drain"])
        if end == "write":
            figures = pack_ints([self.begun[uid] for uid in uids]) if task == "roll" else None
            self.put(holder, uids, WRITES[task], lease=lease, floors=figures)
            self.ask(holder, "ack", table="t", lease=lease, uids=None)
        else:
            more = {"reason": end, "failed": end == "fail", "carry": []}
            self.ask(holder, "release", table="t", lease=lease, uids=None, **more)
        del self.leases[lease]

    def train(self) -> None:
        step = len(self.steps)
        try:
            body = self.ask("t", "lease", task="learn", want=9, version=step, timeout_s=0.0)
        except WaitTimeout:
            pass
        else:
            uids = unpack_ints(body["uids"])
            self.leases[body["lease"]] = ("t", "learn", uids)
            self.batch += uids
        gone = [s for s, uids in self.recorded.items() if any(map(self.table.ledger.is_gone, uids))]
        self.changed |= {each for each in self.recorded if gone and each >= min(gone)}
        again = None if step in self.changed else self.recorded.get(step)
        if again is not None:
            assert self.batch == again[: len(self.batch)], "the same batch in the same order"
        units = len({self.table.shelf.rows[uid].unit.__hash__() for uid in self.batch})
        if units == self.units and (again is None or len(self.batch) == len(again)):
            self.commit(step)

    def commit(self, step: int) -> None:
        uids, self.batch = self.batch, []
        self.ask("t", "commit", task="learn", step=step, uids=pack_ints(uids))
        earlier = {uid for batch in self.steps for uid in batch}
        assert not earlier & set(uids), "no row is in two commits"
        assert not self.lost & set(uids), "no row of a lost timeline is trained on"
        for uid in uids:
            assert step - self.begun[uid] <= (
                math.ceil(self.staleness) if self.staleness < math.inf else step
            )
        self.steps.append(uids)
        self._forget("learn")
        self.changed.discard(step)
        self.publish(step + 1, again=self.recorded.pop(step, None) is not None)

    def publish(self, version: int, *, again: bool) -> None:
        differs = again and self.random.random() < 0.3
        self.forks += differs
        before = {uid for uid in self.table.shelf.rows if self.table.shelf.rows[uid].step < 0}
        checksum = f"{version} of {self.forks if not again or differs else self.checksums[version]}"
        self.checksums[version] = int(checksum.rpartition(" ")[2])
        body = self.ask("t", "publish", policy="p", version=version, checksum=checksum)
        fenced = before - self.table.shelf.rows.keys()
        assert body["lost"] == (len(fenced) if differs else None)
        if differs:
            self.recorded.clear()
            self.changed.clear()
            self.lost |= fenced
            self.dropped |= fenced
            self._forget("roll")
            self._drop_from_leases(fenced)

    def checkpoint(self) -> None:
        if not self.recorded:
            self.ask("t", "checkpointed", task="learn", step=len(self.steps))
            self.covered = len(self.steps)

    def finish(self) -> None:
        if self.recorded:
            return
        self.ask("t", "finish", task="learn")
        self.over = True
        self.finishes += 1
        self._forget("learn")
        self.batch = []

    def go_on(self) -> None:
        self.back_to(len(self.steps))

    def rewind(self) -> None:
        self.back_to(self.random.randint(self.covered, len(self.steps)))

    def back_to(self, step: int) -> None:
        self.ask("t", "rewind", task="learn", step=step)
        self.rewinds += 1
        self.over = False
        self._forget("learn")
        self.batch = []
        self.recorded |= dict(enumerate(self.steps[step:], step))
        self.changed -= set(range(step, len(self.steps)))
        del self.steps[step:]
        if step in self.checksums:
            checksum = f"{step} of {self.checksums[step]}"
            self.ask("t", "publish", policy="p", version=step, checksum=checksum)

    def drop(self) -> None:
        rows = [row.uid for row in self.table.shelf.rows.values() if not row.leased]
        if not rows or self.recorded or self.batch:
            return
        uid = self.random.choice(rows)
        try:
            self.ask("source", "drop", table="t", uids=pack_ints([uid]), reason="test")
        except Refused:
            assert any(uid in batch for batch in self.steps)
            return
        self.dropped.add(uid)

    def evict(self) -> None:
        """A worker's leases end; it is the same client that goes on, so it says hello again."""
        holder = self.random.choice("ab")
        self.ask("source", "evict", holder=holder, reason="killed")
        self.queue.rejoin(holder)
        self.leases = {k: v for k, v in self.leases.items() if v[0] != holder}

    def expire(self) -> None:
        self.queue.tick(11.0)
        self.leases.clear()
        self.batch = []

    def restart(self) -> None:
        before = self.picture()
        self.queue.restart()
        assert self.picture() == before
        self.check()

    def picture(self) -> Any:
        """Everything that matters of the table, to be the same before a crash and after."""
        table = self.table
        rows = [
            (
                row.uid,
                row.written,
                row.ready,
                row.leased,
                row.done,
                row.version,
                row.newest,
                row.step,
                row.carry,
            )
            for row in table.shelf.rows.values()
        ]
        units = [
            (row.unit.rows, row.unit.version, row.unit.deadline, row.unit.taken)
            for row in table.shelf.rows.values()
        ]
        failures = [dict(row.failures) for row in table.shelf.rows.values()]
        leases = [(held.id, held.task, held.holder, list(held.rows)) for held in table.leases]
        window, ledger = table.window, table.ledger
        counts = (window.step, window.taken, window.outstanding, dict(window.due))
        ended = (
            ledger.trained,
            dict(ledger.dropped),
            ledger.quarantined,
            dict(ledger.staleness),
            ledger.step,
        )
        kept = [row.uid for row in table.history.kept()]
        flows = [(flow.pending, flow.ready, dict(flow.leased)) for flow in table.flows.values()]
        return (
            rows,
            units,
            failures,
            leases,
            counts,
            ended,
            kept,
            flows,
            table.shelf.bytes,
            table.newest_version,
            [row.passed for row in table.shelf.rows.values()],
            list(table.over),
        )

    def check(self) -> None:
        table, shelf = self.table, self.table.shelf
        ended = {uid for batch in self.steps for uid in batch} | self.dropped | table.ledger.quarantine.keys()
        if self.finishes:
            ended |= {uid for uid, column in self.written if column == "score" and table.ledger.is_gone(uid)}
        for (uid, column), content in self.written.items():
            if uid in ended:
                continue
            row = shelf.rows[uid]
            assert row.written & table.bits[column], "no acknowledged cell is lost"
            block = next(block for block, _ in row.cells if block.columns & table.bits[column])
            with (self.queue.directory / block.segment).open("rb") as file:
                file.seek(block.offset)
                assert file.read(block.length) == content
        held = {held.id: list(held.rows) for held in table.leases}
        alive = {lease: uids for lease, (_, _, uids) in self.leases.items()}
        assert held == alive, "leases are conserved"
        live = [block for block in blocks_of(table) if block.live]
        assert shelf.bytes == CELL_BYTES * len(live), "capacity is conserved"
        assert len(shelf.rows) <= 40 or self.rewinds, "only a rewind may go beyond the limit"
        assert (table.ledger.violations, table.ledger.duplicated) == (0, 0)
        assert table.ledger.lost(len(shelf.rows) - shelf.consumed) == 0
        assert table.ledger.trained == sum(map(len, self.steps))

    def _forget(self, task: str) -> None:
        self.leases = {k: v for k, v in self.leases.items() if v[1] != task}

    def _drop_from_leases(self, uids: set[int]) -> None:
        for lease, (holder, task, held) in list(self.leases.items()):
            rest = [uid for uid in held if uid not in uids]
            self.leases[lease] = (holder, task, rest)
            if not rest:
                del self.leases[lease]
