"""What a durable queue remembers: every operation that was done, in order, and how to do them again.

    request ─► hub does it ─► entry in the group ─┐ end of the loop's turn
    event   ─► hub does it ─► entry in the group ─┴─► one transaction ─► replies go out, segments may go

Invariant: the state is a function of the entries. An entry holds the checksum of the reply that was given;
a replay that does not give the same reply is refused, never guessed at.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from headrace.transferqueue.disk import graph
from headrace.transferqueue.disk.journal import Fsync, Journal, Past
from headrace.transferqueue.errors import JournalError
from headrace.transferqueue.link.wire import Arguments, Request, pack, pack_ints, unpack_all
from headrace.transferqueue.payload.custody import Custody
from headrace.transferqueue.payload.segments import is_whole
from headrace.transferqueue.server.events import EVENTS
from headrace.transferqueue.server.hub import Call, Hub
from headrace.transferqueue.server.nodes import TORN
from headrace.transferqueue.server.operations import OPERATIONS, PASSING
from headrace.transferqueue.server.places import ALL_COLUMNS, places
from headrace.transferqueue.state.records import Block, Row
from headrace.transferqueue.state.rewind import checkpointed
from headrace.transferqueue.state.table import Table

STATE_EVERY_BYTES = 16 << 20
"""Log that is worth a snapshot; or twice the size of the last one, if that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a restart found."""

    entries: int
    now: float
    """The queue's clock at the newest of them, in seconds."""
    dropped: dict[str, list[int]]
    """By table: rows whose cells did not survive a loss of power; their groups go on without them."""


class Chronicle:
    """The record of one durable queue."""

    def __init__(
        self,
        directory: Path,
        *,
        fsync: Fsync,
        archive: bool = False,
        state_every_bytes: int = STATE_EVERY_BYTES,
        before_writing: Callable[[], object] = lambda: None,
    ) -> None:
        """`before_writing`: see `Journal`."""
        self.unkept: set[tuple[bytes, int]] = set()
        """Requests, by client and number, whose answers tell of what was done since the last commit; a unit
        removes for good what it is told to."""
        self._owes_state = False
        self._archive = archive
        self._directory = directory
        self._journal = Journal(directory, fsync=fsync, before_writing=before_writing)
        self._state_every_bytes = state_every_bytes

    def request(self, call: Call, reply: bytes, now: float) -> None:
        request = call.request
        if request.operation not in PASSING:
            fields = request.arguments.fields
            seen = [now, call.client, request.id, request.since, request.operation, fields, zlib.crc32(reply)]
            self._journal.append(pack(seen))
        if request.operation not in PASSING or request.operation == "attend":
            self.unkept.add((call.client, request.id))

    def event(self, name: str, what: Any, now: float) -> None:
        self._journal.append(pack([now, name, what]))

    def left(self, table: Table, rows: tuple[Row, ...]) -> None:
        if self._archive:
            where = {
                "uids": pack_ints([row.uid for row in rows]),
                "groups": pack_ints([row.group.number for row in rows]),
                "steps": pack_ints([row.step for row in rows]),
                "versions": pack_ints([row.version for row in rows]),
                "blocks": places(list(rows), ALL_COLUMNS),
            }
            self._journal.archive(table.spec.name, pack(where))

    def commit(self, hub: Hub) -> None:
        """Keeps what was done since the last call. Raises JournalFull where there is no room, and is to be
        called again, nothing else having been done meanwhile; JournalError where it cannot be kept."""
        if self._journal.has_group():
            if self._journal.fsync == "always":
                _sync(hub)
            self._journal.commit()
        most = max(self._state_every_bytes, 2 * self._journal.state_bytes)
        if self._owes_state or self._journal.log_bytes > most:
            self.condense(hub)
        self.unkept.clear()

    def condense(self, hub: Hub) -> None:
        """Puts a snapshot in the place of the log."""
        if self._journal.fsync != "never":
            _sync(hub)
        roots = {name: getattr(hub, name) for name in _ROOTS}
        self._journal.replace(graph.dump(roots))
        self._owes_state = False

    def recover(self, hub: Hub) -> Recovered:
        """Brings a new hub to the state of the last commit, with every lease renewed; the next `commit` keeps
        what became of it, before anything else may be done."""
        entries = replay(self._journal.read(), hub)
        hub.custody.settle(client.hex() for client in hub.sessions)
        dropped = {name: self._drop_torn(table) for name, table in hub.tables.items()}
        hub.settle()
        hub.resume()
        self._owes_state = True
        hub.record = self
        return Recovered(entries=entries, now=hub.now, dropped={k: v for k, v in dropped.items() if v})

    def close(self) -> None:
        self._journal.close()

    def _drop_torn(self, table: Table) -> list[int]:
        torn = [
            block
            for block in blocks_of(table)
            if not block.node
            and not is_whole(self._directory / block.segment, block.offset, block.length, block.checksum)
        ]
        lost = {id(block) for block in torn}
        rows = [row for row in _rows_of(table) if any(id(block) in lost for block in row.blocks)]
        used = [row for row in rows if row.consumed]
        if used and table.spec.train is not None:
            checkpointed(table, table.spec.train.name, max(row.step for row in used) + 1)
        table.drop([row.uid for row in rows if not row.consumed], TORN)
        return [row.uid for row in rows]


_ROOTS = ("tables", "policies", "sessions", "units", "lease_ids", "paused", "paused_s", "now")


def _sync(hub: Hub) -> None:
    """Raises JournalError at the first failure: a disk tells once of what it lost, and another try would seem
    to go well."""
    try:
        hub.custody.sync()
    except OSError as error:
        raise JournalError(
            f"the queue's cells cannot be synced: {error}; nothing that was not acknowledged is kept. Look "
            "to the disk, and start the controller again"
        ) from error


def replay(past: Past, hub: Hub) -> int:
    """Does everything again on a hub without a record; returns how many entries there were."""
    hub.custody.rehearsing = True
    if past.state is not None:
        for name, value in graph.load(past.state).items():
            setattr(hub, name, value)
        hub.tables_by_task = {task: table for table in hub.tables.values() for task in table.flows}
        for table in hub.tables.values():
            hub.custody.adopt(blocks_of(table))
    entries = [entry for group in past.groups for entry in unpack_all(group)]
    for entry in entries:
        _again(entry, hub)
    hub.record = None
    return len(entries)


def rehearse(past: Past, directory: Path) -> Hub:
    """The state that a journal holds, for looking at: no file is touched."""
    hub = Hub(directory, OPERATIONS, lambda client, reply: None, custody=Custody(directory))
    replay(past, hub)
    return hub


def blocks_of(table: Table) -> Iterator[Block]:
    """Every block that rows of the table need, once."""
    seen: set[int] = set()
    for row in _rows_of(table):
        for block in row.blocks:
            if id(block) not in seen:
                seen.add(id(block))
                yield block


def _rows_of(table: Table) -> Iterator[Row]:
    return chain(table.shelf.rows.values(), table.history.kept())


class _Given:
    """The checksums of what a replayed request was answered."""

    def __init__(self) -> None:
        self.replies: list[int] = []

    def request(self, call: Call, reply: bytes, now: float) -> None:
        self.replies.append(zlib.crc32(reply))

    def left(self, table: Table, rows: tuple[Row, ...]) -> None:
        """They were archived when they left."""

    def event(self, name: str, what: Any, now: float) -> None:
        raise JournalError(f"{name!r} of {what} happened in a replay; only entries may make it")


def _again(entry: object, hub: Hub) -> None:
    match entry:
        case [float(now), bytes(client), int(number), int(since), str(operation), dict(fields), int(crc)]:
            given = hub.record = _Given()
            hub.handle(client, Request(number, since, operation, Arguments(fields)), now)
            if given.replies != [crc]:
                raise JournalError(
                    f"{operation} {number} of client {client.hex()} does not give the reply again that was "
                    "given; the journal is another version's or damaged: keep it and start a new directory"
                )
        case [float(now), str(event), what] if event in EVENTS:
            hub.now = now
            EVENTS[event](hub, what)
            hub.settle()
        case _:
            raise JournalError(f"not an entry of a queue's journal: {entry!r:.80}")
