"""The state machine of one table: events in, decisions out; no sockets, clocks, files or waiting.

Every method is one event. It either raises, having changed nothing, or changes the state and leaves its
consequences in `effects()`. Time is an argument, in seconds of any monotonic clock.

    row:  created ─► ready ⇄ leased ─► done, per task ─► gone once every task is done with it
                        └── max_attempts failures ─► quarantined     └── drop(reason) ─► dropped
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from headrace.transferqueue.errors import EndOfData, Refused, RowsGone, SchemaError, StepRefused
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.state.checks import (
    check_done,
    check_lengths,
    check_versions,
    held_rows,
    lease_version,
    require_train,
    whole_units,
    written_rows,
)
from headrace.transferqueue.state.flow import Flow, make_flows
from headrace.transferqueue.state.history import History
from headrace.transferqueue.state.leases import Leases
from headrace.transferqueue.state.ledger import Ledger
from headrace.transferqueue.state.origin import lose_parent
from headrace.transferqueue.state.parking import park_written
from headrace.transferqueue.state.records import Effects, Entry, Held, Row, Unit
from headrace.transferqueue.state.samplers.base import Ask
from headrace.transferqueue.state.shelf import Shelf
from headrace.transferqueue.state.staleness import Window


class Table:
    """Rows by readiness, the leases on them, and the counts that bound staleness.

    `lease_ids` gives numbers unique over all tables of a controller; `parent` is the table of its origin.
    """

    def __init__(self, spec: TableSpec, *, lease_ids: Iterator[int], parent: "Table | None" = None) -> None:
        self.spec = spec
        self.parent = parent
        self.bits = {column.name: 1 << index for index, column in enumerate(spec.columns)}
        self.ledger = Ledger(first_step=spec.first_step)
        self.shelf = Shelf(spec, self.ledger)
        self.leases = Leases(lease_ids, spec.lease_s)
        self.window: Window | None = None
        if spec.policy is not None:
            self.window = Window(
                units_per_step=spec.units_per_step, staleness=spec.staleness, first_step=spec.first_step
            )
        self.history = History(spec.first_step)
        self.flows = make_flows(spec, self.bits, self.window)
        self.newest_version = spec.first_step
        self.ended = False
        self.over: dict[str, Flow] = {}
        """Tasks that will do nothing more, by name; see `over.py`."""
        self.away: set[str] = set()
        """Nodes whose cells cannot be read now; see `parking.py`."""
        self._by_index = tuple(self.flows.values())
        self._all_done = (1 << len(self._by_index)) - 1
        self._trained = sum(flow.bit for flow in self._by_index if flow.task.kind == "train")
        self._woken: dict[str, None] = {}

    # -- producers and workers

    def put(self, now: float, entry: Entry) -> list[Row]:
        """Writes cells. Returns the rows that have cells of this put already: then nothing was written,
        and the put is to be repeated as `known_same` if their bytes are these."""
        if len(set(entry.uids)) != len(entry.uids):
            raise SchemaError("a put names a row twice; every row has one cell per column")
        creates = entry.groups is not None and self.shelf.is_new(entry)
        if creates and self.ended:
            raise Refused(f"table {self.spec.name!r} has ended; it takes no new rows")
        rows = [] if creates else written_rows(self.shelf, self.leases, self._by_index, entry, self.bits)
        if self.window is not None:
            check_versions(entry, rows, newest_version=self.newest_version)
        if creates:
            rows = self.shelf.create(now, entry)
            for flow in self._by_index:
                flow.join(rows)
            for flow in self.over.values():
                flow.pass_over(rows)
        else:
            check_lengths(entry, rows)
            written = [row for row in rows if row.written & entry.columns]
            if written and not entry.known_same:
                return written
        self._on_written(entry, self.shelf.write(entry, rows))
        if creates and self.over:
            self._let_go(rows)
        return []

    def lease(
        self,
        now: float,
        task: str,
        want: int,
        *,
        holder: str,
        version: int | None,
        rank: int | None = None,
    ) -> Held | None:
        """Up to `want` rows in whole lots, at least one lot; None: nothing may be leased now.

        Raises EndOfData when nothing ever will be, StepRefused on a version that is not due.
        """
        flow = self.flows[task]
        if task in self.over:
            what = (
                f"step {self.ledger.step} will not be taken"
                if flow.task.kind == "train"
                else "it is finished"
            )
            raise EndOfData(f"task {task!r} is over: {what}")
        at = lease_version(self.spec, flow, self.ledger, version, newest_version=self.newest_version)
        ask = flow.ask(at, rank, ended=self.ended)
        held = self.leases.draft(now, flow.index, holder)
        while len(held.rows) < want and (rows := self._next(flow, ask, want - len(held.rows))):
            if held.rows and len(held.rows) + len(rows) > want:
                break
            flow.take(rows, held, ask)
            for row in rows if flow.task.kind != "work" else ():
                self._on_leased(flow, row, at)
            if flow.task.kind == "train" and self.history.ends_lease(self.ledger.step, rows[-1]):
                break
        if held.rows:
            self.leases.hold(held)
            return held
        if self.ended and flow.is_exhausted(holder):
            raise EndOfData(f"table {self.spec.name!r} has ended and has no further row for task {task!r}")
        return None

    def ack(self, lease: int, uids: Iterable[int] | None) -> None:
        """The task is done with these rows of the lease; None: with all of them."""
        held = self.leases.get(lease)
        flow = self._by_index[held.task]
        rows = self.leases.rows(held, uids)
        check_done(flow, rows)
        flow.give_back(held, rows)
        again = flow.sampler.again(rows)
        if flow.offer(again):
            self._wake((flow,))
        if again:
            once_more = set(again)
            rows = [row for row in rows if row not in once_more]
        self._finish(flow, rows)
        self.leases.close_if_empty(held)

    def release(
        self,
        lease: int,
        uids: Iterable[int] | None,
        *,
        reason: str,
        failed: bool = True,
        carry: Mapping[int, bytes | None] | None = None,
    ) -> int:
        """Hands rows back; returns how many are ready again. A row whose task has written it is done.

        `carry` replaces what those rows carry (None: nothing); the others keep what they had.
        """
        held = self.leases.get(lease)
        rows = self.leases.rows(held, uids)
        self.leases.rows(held, carry or ())
        for uid, packed in (carry or {}).items():
            held.rows[uid].carry = packed
        returned = sum(self._hand_back(self._by_index[held.task], row, reason, failed) for row in rows)
        self.leases.close_if_empty(held)
        return returned

    # -- time, supervision, the producer's end

    def expire(self, now: float) -> list[int]:
        """Ends the leases whose deadline has passed; their rows come back with one more attempt."""
        return self.end_leases([held.id for held in self.leases.late(now)])

    def end_leases(self, leases: list[int]) -> list[int]:
        """Expiry, of leases that are known to be late."""
        for lease in leases:
            holder = self.leases.get(lease).holder
            reason = f"the lease of {holder!r} expired: not renewed for {self.spec.lease_s:g} s"
            self.release(lease, None, reason=reason)
        return leases

    def evict(self, holder: str, reason: str) -> int:
        """Ends every lease of a dead holder at once; returns the rows that are ready again."""
        return sum(self.release(held.id, None, reason=reason) for held in self.leases.of(holder))

    def publish(self, version: int) -> None:
        """The policy that gates this table has a new version."""
        self.newest_version = max(self.newest_version, version)

    def set_staleness(self, staleness: float) -> None:
        """Applies to units begun from now on; deadlines already given stand."""
        if not staleness >= 0:
            raise SchemaError(f"staleness is {staleness}; it must be a number >= 0, or inf")
        if self.window is None:
            raise Refused(f"table {self.spec.name!r} has no policy, so staleness would have no effect")
        self.window.set_staleness(staleness)
        self._wake_gates()

    def end(self) -> None:
        """No further rows will be put."""
        self.ended = True
        self._wake(self._by_index)

    # -- the trainer

    def commit(self, task: str, step: int, uids: list[int], *, holder: str) -> None:
        """The rows of a finished step; the same set again changes nothing, another is refused."""
        flow = require_train(self.flows[task])
        if self.ledger.is_repeat(step, uids):
            return
        if task in self.over:
            raise StepRefused(f"task {task!r} is over: step {step} is not due; rewind it to go on")
        rows = held_rows(self.shelf, self.ledger, flow, uids, holder)
        units = whole_units(self.window, step, rows)
        label = self.length_label
        if self.spec.rewindable:
            self.history.add(step, rows, task=flow.index)
        for row in rows:
            self.ledger.train(row, step, row.lengths.get(label))
            row.step = step
        for unit in units:
            unit.rows = unit.taken = 0
        if self.window is not None:
            self.window.commit(len(units))
        self.ledger.commit(step, uids)
        self.shelf.consumed += len(rows)
        self._take_back(flow, rows)
        self._finish(flow, rows)
        self._wake_gates()

    def drop(self, uids: list[int], reason: str) -> None:
        """Rows leave the table and the counts; again for the same rows changes nothing."""
        rows = self.shelf.find([uid for uid in uids if not self.ledger.was_dropped(uid)])
        used = [row.uid for row in rows if row.consumed]
        if used:
            raise RowsGone(f"rows {used[:8]} cannot be dropped: a step has consumed them")
        for row in dict.fromkeys(rows):
            self._remove(row, reason)
            self.ledger.drop(row.uid, reason)

    def finish_for(self, flow: Flow, rows: Sequence[Row]) -> None:
        """A task will not see the rows again, whether somebody holds them for it or not."""
        self._take_back(flow, [row for row in rows if row.leased & flow.bit])
        for row in rows:
            flow.withdraw(row)
        self._finish(flow, rows)

    def sampler_states(self) -> dict[str, dict[str, Any]]:
        """What each task's sampler must remember, as JSON; see `Sampler.state`."""
        return {name: flow.sampler.state() for name, flow in self.flows.items()}

    def is_settled(self) -> bool:
        """Whether `effects` has nothing to tell."""
        return not self._woken and self.shelf.is_settled()

    def effects(self) -> Effects:
        """What the events since the last call make possible; the caller owes the consequences."""
        freed, room, left = self.shelf.drain()
        effects = Effects(tasks=tuple(self._woken), freed=freed, room=room, left=left)
        self._woken = {}
        return effects

    # -- how a row moves

    def _on_written(self, entry: Entry, rows: list[Row]) -> None:
        label = self.length_label
        generated = self.spec.versions is not None and entry.columns & self.bits[self.spec.versions.name]
        if entry.block.node in self.away:
            park_written(rows, self._by_index, entry.columns)
        for flow in self._by_index:
            if (entry.columns & flow.reads or not flow.reads) and flow.offer(rows):
                self._wake((flow,))
        if generated:
            for row in rows:
                self.ledger.dispatch(row.lengths.get(label))

    def _on_leased(self, flow: Flow, row: Row, version: int) -> None:
        unit = row.unit
        if flow.task.kind == "begin":
            if self.window is not None and not unit.begun and not row.done & self._trained:
                unit.version, unit.slack = version, self.window.slack
                unit.deadline = self.window.begin(version)
                self._requeue(unit, row)
            if row.carry is None and version >= 0:
                row.version = version
        elif flow.task.kind == "train":
            if self.window is not None and not unit.taken:
                self.window.take(unit.deadline, counted=unit.begun)
            unit.taken += 1

    def _requeue(self, unit: Unit, row: Row) -> None:
        members = [member for member in row.group.rows.values() if member.unit is unit]
        for flow in [flow for flow in self._by_index if flow.task.kind == "begin"]:
            for member in members:
                flow.requeue(member)

    def _hand_back(self, flow: Flow, row: Row, reason: str, failed: bool) -> bool:
        held = row.leases[flow.index]
        flow.give_back(held, [row])
        if flow.task.kind == "train":
            self._untake(row.unit)
        self.ledger.last_reasons[flow.index] = f"{reason} (row {row.uid}, {held.holder})"
        row.failures = {**row.failures, flow.index: row.failures.get(flow.index, 0) + failed}
        if flow.writes and row.written & flow.writes == flow.writes:
            self._finish(flow, [row])
        elif row.failures[flow.index] < self.spec.max_attempts:
            if flow.offer([row]):
                self._wake((flow,))
            return True
        elif row.consumed:
            self._finish(flow, [row])
        else:
            self._remove(row, f"quarantined by task {flow.task.name!r}")
            self.ledger.put_in_quarantine(row.uid, f"{flow.task.name}: {reason}")
        return False

    def _take_back(self, flow: Flow, rows: Iterable[Row]) -> None:
        """Rows leave whatever leases they are in."""
        for held, members in groupby(rows, key=lambda row: row.leases[flow.index]):
            flow.give_back(held, list(members))
            self.leases.close_if_empty(held)

    def _finish(self, flow: Flow, rows: Sequence[Row]) -> None:
        """The task is done with rows; those that every task is done with leave the table."""
        if flow.finish(rows) or self.ended:
            self._wake((flow,))
        self._let_go(rows)

    def _let_go(self, rows: Sequence[Row]) -> None:
        gone = [row for row in rows if row.done == self._all_done]
        self.ledger.retire(gone)
        if self.spec.rewindable:
            covered = self.history.covered
            self.shelf.discard([row for row in gone if row.step >= covered], keep=True)
            gone = [row for row in gone if row.step < covered]
        self.shelf.discard(gone)

    def _next(self, flow: Flow, ask: Ask, most: int) -> list[Row]:
        """The rows to lease next; while a step is gone through again, those that made it."""
        if flow.task.kind == "train" and self.history.is_again(self.ledger.step):
            lots = self.history.lots(self.ledger.step, whole=flow.task.needs_full_group)
            if self.away and any(row.parked & flow.bit for lot in lots for row in lot):
                return []
            return next((lot for lot in lots if all(row.ready & flow.bit for row in lot)), [])
        return flow.heads(ask, most)

    def _untake(self, unit: Unit) -> None:
        unit.taken -= 1
        if not unit.taken and self.window is not None:
            self.window.untake(unit.deadline, counted=unit.begun)
            self._wake_gates()

    def _remove(self, row: Row, reason: str) -> None:
        """Takes an unconsumed row out of everything: leases, tasks, its group, the counts."""
        unit = row.unit
        had_place = unit.taken > 0
        for flow in self._by_index:
            if row.leased & flow.bit:
                unit.taken -= flow.task.kind == "train"
                self._take_back(flow, [row])
            if flow.leave(row) or self.ended:
                self._wake((flow,))
        unit.rows -= 1
        if self.window is not None:
            if not unit.rows:
                self.window.leave(unit.deadline, taken=had_place, counted=unit.begun)
            elif had_place and not unit.taken:
                self.window.untake(unit.deadline, counted=unit.begun)
            self._wake_gates()
        self.shelf.discard([row])
        self.history.forget(row)
        lose_parent(self, row.group, reason)

    def _wake(self, flows: Iterable[Flow]) -> None:
        self._woken.update((flow.task.name, None) for flow in flows)

    def wake_all(self) -> None:
        """Every task may have something to lease now."""
        self._wake(self._by_index)

    def _wake_gates(self) -> None:
        self._wake(flow for flow in self._by_index if flow.task.kind != "work")

    # -- what is checked before anything changes

    @property
    def length_label(self) -> str:
        """The length that counts a row's tokens; empty: the table has none."""
        versions = self.spec.versions
        return (versions.aligned if versions is not None else None) or ""
