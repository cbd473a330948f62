"""Requests in, answers out: the tables, the waits and the clients of one queue, without sockets or clocks.

Every request is answered once, at once or from a wait; an answer is kept until its client has seen it, so a
request that is sent again is answered again and never done twice. Time is an argument.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headrace.transferqueue.errors import (
    ControllerUnreachable,
    QueueError,
    Refused,
    UnknownName,
    WaitTimeout,
    WireError,
)
from headrace.transferqueue.link.wire import Arguments, Request, write_error, write_reply
from headrace.transferqueue.payload.custody import Custody
from headrace.transferqueue.payload.depots import Depots
from headrace.transferqueue.server.events import EVENTS, due, next_due
from headrace.transferqueue.server.nodes import Unit
from headrace.transferqueue.server.shortages import CHANGED, Shortages
from headrace.transferqueue.server.silence import Silence
from headrace.transferqueue.server.waits import Wait, Waits
from headrace.transferqueue.state.leases import LeaseIds
from headrace.transferqueue.state.publications import Publications
from headrace.transferqueue.state.records import Row
from headrace.transferqueue.state.staleness import INFINITE
from headrace.transferqueue.state.table import Table

MAX_CLIENTS = 4096
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One connected client."""

    holder: str
    node: str = ""
    """Where it writes its cells."""
    timeout_s: float = 10.0
    """How long it lets the controller be silent, and a measure of its own silences."""
    heard_s: float = 0.0
    """When its last message came."""
    since: int = 0
    """Oldest request that the client may still wait for; what is older was answered and seen."""
    timelines: dict[str, int] = field(default_factory=dict)
    """By policy: the one whose newest version it was last told of."""
    replies: dict[int, bytes] = field(default_factory=dict)
    """Answers that the client may not have seen, by request id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request on its way through an operation."""

    client: bytes
    session: Session
    request: Request
    timeout_s: float
    """Longest wait for the answer; 0 for an operation that does not wait."""

    @property
    def id(self) -> int:
        return self.request.id

    @property
    def arguments(self) -> Arguments:
        return self.request.arguments

    @property
    def owner(self) -> str:
        """Name of the client in its segments' file names."""
        return self.client.hex()


Operation = Callable[["Hub", Call], Any]


class Record(Protocol):
    """Keeps what changed the state, in the order in which it did."""

    def request(self, call: Call, reply: bytes, now: float) -> None: ...

    def event(self, name: str, what: Any, now: float) -> None: ...

    def left(self, table: Table, rows: tuple[Row, ...]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a controller was started with that its hub goes by."""

    give_up_s: float = 30.0
    """In memory: a storage unit that was silent for so long has lost its bytes."""
    sync: bool = False
    """Payload is to be safe from a loss of power before its put is acknowledged."""
    archive: bool = False
    """Segments that nobody needs are kept."""


class Hub:
    """State of a controller. `deliver(client, reply)` sends; `operations` is what clients may ask for.

    `record`: hears of every operation and event, so that doing them again gives the same state.
    `reaches(client)`: whether a client's line is up.
    """

    def __init__(
        self,
        directory: Path,
        operations: dict[str, Operation],
        deliver: Callable[[bytes, bytes], object],
        *,
        custody: Custody | None = None,
        record: Record | None = None,
        terms: Terms = Terms(),
        reaches: Callable[[bytes], bool] = lambda client: False,
    ) -> None:
        self.directory = directory
        self.custody = Depots(Custody(directory) if custody is None else custody)
        self.units: dict[str, Unit] = {}
        self.record = record
        self.terms = terms
        self.reaches = reaches
        self.tables: dict[str, Table] = {}
        self.tables_by_task: dict[str, Table] = {}
        self.policies: dict[str, Publications] = {}
        self.sessions: dict[bytes, Session] = {}
        self.waits = Waits()
        self.silence = Silence()
        self.shortages = Shortages()
        self.malformed = self.forgotten = 0
        self.lease_ids = LeaseIds()
        self.now = 0.0
        self.paused: dict[str, str] = {}
        """Tables of which nothing is leased, and why; see `pausing.py`."""
        self.paused_s = 0.0
        """Since when."""
        self.due = INFINITE
        """Nothing ends or is due before it: `tick` may wait until then."""
        self._woken: dict[tuple[str, str], None] = {}
        self._operations = operations
        self._deliver = deliver

    # -- entry points

    def handle(self, client: bytes, request: Request, now: float) -> None:
        """Does one request, or finds that it is done or waiting already."""
        self.now = now
        session = self._session(client, request)
        if session is None or (client, request.id) in self.waits or request.id < session.since:
            return
        session.since = max(session.since, request.since)
        for seen in [number for number in session.replies if number < request.since]:
            del session.replies[seen]
        if request.id in session.replies:
            self._deliver(client, session.replies[request.id])
            return
        arguments = request.arguments
        timeout_s = arguments.number("timeout_s") if arguments.has("timeout_s") else 0.0
        call = Call(client=client, session=session, request=request, timeout_s=timeout_s)
        self._answer(call, lambda: self._do(call))
        self.settle()

    def tick(self, now: float) -> None:
        """Ends the leases and the waits that are due, and notices who has gone silent."""
        self.now = now
        for event, what, line in due(self, now):
            _log.warning("%s", line)
            self.happen(event, what)
        self.settle()
        for wait in self.waits.late(now, stands=bool(self.paused)):
            wait.abandon()
            wait.give_up()
        self.settle()
        self.look_ahead()

    def expect(self, deadline_s: float) -> None:
        """Something ends then, unless it is answered, given back or renewed before."""
        self.due = min(self.due, deadline_s)

    def look_ahead(self) -> None:
        """Finds anew what ends next: `due` stands where something ended early, and `tick` comes in vain."""
        dues = self.waits.next_deadline(stands=bool(self.paused)), next_due(self)
        self.due = min((at for at in dues if at is not None), default=INFINITE)

    def happen(self, event: str, what: Any) -> None:
        """Something that no client asked for; see `events.py`."""
        EVENTS[event](self, what)
        if self.record is not None:
            self.record.event(event, what, self.now)

    def resume(self) -> None:
        """After a restart leases, units and clients have their full time again."""
        for table in self.tables.values():
            table.leases.renew_all(self.now)
        for unit in self.units.values():
            unit.attended_s = self.now
        self.silence = Silence()
        for client, session in self.sessions.items():
            session.heard_s = self.now
            self.silence.expect(client, session)

    # -- what operations build on

    @property
    def durable(self) -> bool:
        """Whether what is done is recorded."""
        return self.record is not None

    def table(self, name: str) -> Table:
        if name not in self.tables:
            raise UnknownName(f"no table {name!r}; there are: {', '.join(self.tables) or 'none yet'}")
        return self.tables[name]

    def table_of(self, task: str) -> Table:
        if task not in self.tables_by_task:
            raise UnknownName(f"no task {task!r}; there are: {', '.join(self.tables_by_task) or 'none yet'}")
        return self.tables_by_task[task]

    def wait(
        self,
        call: Call,
        key: tuple[str, str],
        attempt: Callable[[], Any | None],
        why: Callable[[], str],
        *,
        first: bool = True,
        abandon: Callable[[], None] = lambda: None,
        runs_on: bool = False,
    ) -> Any | None:
        """The body of `attempt`, now if it gives one (and `first`), else when an event under `key` makes
        it; WaitTimeout with `why` after the call's `timeout_s`, which `runs_on` while the queue stands or
        does not."""
        timeout_s = call.timeout_s
        body = attempt() if first else None
        if body is not None:
            return body

        def give_up() -> None:
            self.reply(call, write_error(call.id, WaitTimeout(f"{why()} (waited {timeout_s:g} s)")))

        if timeout_s <= 0:
            abandon()
            raise WaitTimeout(why())
        self.expect(self.now + timeout_s)
        self.waits.add(
            Wait(
                key=key,
                asker=(call.client, call.id),
                since_s=self.now,
                deadline_s=self.now + timeout_s,
                why=why,
                attempt=lambda: self._answer(call, attempt),
                give_up=give_up,
                abandon=abandon,
                runs_on=runs_on,
            )
        )
        return None

    def wake(self, key: tuple[str, str]) -> None:
        """`settle` will look at the waits of a key again, once the operation that says so is recorded."""
        self._woken[key] = None

    def retry(self, key: tuple[str, str], *, in_turn: bool = False) -> bool:
        """Looks at the waits of a key again; `in_turn`: the first that must go on waiting holds the rest.
        True: one was answered, and something may follow from that."""
        answered = False
        for wait in self.waits.under(key):
            if wait.attempt():
                self.waits.remove(wait.asker)
                answered = True
            elif in_turn:
                break
        return answered

    def settle(self) -> None:
        """Carries out what events have made possible, until nothing more follows."""
        busy = True
        while busy:
            woken, self._woken = self._woken, {}
            busy = any([self.retry(key) for key in woken])
            for name, table in self.tables.items():
                if table.is_settled():
                    continue
                effects = table.effects()
                if effects.left and self.record is not None:
                    self.record.left(table, effects.left)
                for block in effects.freed:
                    self.custody.free(block)
                if effects.room and self.retry(("room", name), in_turn=True):
                    busy = True
                for task in effects.tasks:
                    busy = self.retry(("task", task)) or busy
        for node in self.custody.nodes_to_wake():
            self.retry(("unit", node))

    def forget(self, client: bytes) -> None:
        """The client is gone: its waits end, its segment is sealed."""
        self.waits.cancel_client(client)
        if self.sessions.pop(client, None) is not None:
            self.custody.leave(client.hex())
            if self.shortages.end(client):
                self.wake(CHANGED)

    def knows(self, call: Call, number: int) -> bool:
        """Whether another request of the client has arrived; an answer it may have missed goes out again."""
        answered = call.session.replies.get(number)
        if answered is not None:
            self._deliver(call.client, answered)
        return answered is not None or (call.client, number) in self.waits

    def reply(self, call: Call, data: bytes) -> None:
        if self.sessions.get(call.client) is call.session:
            call.session.replies[call.id] = data
        self._deliver(call.client, data)

    # -- inside

    def _do(self, call: Call) -> Any | None:
        operation = self._operation(call.request.operation)
        if call.arguments.has("let_go"):
            self.custody.let_go(call.owner, call.arguments.mapping("let_go"))
        return operation(self, call)

    def _answer(self, call: Call, work: Callable[[], Any | None]) -> bool:
        """Replies with what `work` gives or raises; False: it gave nothing yet."""
        try:
            body = work()
            if body is None:
                return False
            data = write_reply(call.id, body)
            self._keep(call, data)
        except QueueError as error:
            self.malformed += isinstance(error, WireError)
            data = write_error(call.id, error)
            if isinstance(error, Refused):
                self._keep(call, data)
        except Exception as error:
            _log.exception("request %d of %s failed in the controller", call.id, call.session.holder)
            data = write_error(call.id, QueueError(f"the controller failed on this request: {error!r}"))
        self.reply(call, data)
        return True

    def _keep(self, call: Call, reply: bytes) -> None:
        if self.record is not None:
            self.record.request(call, reply, self.now)

    def _operation(self, name: str) -> Operation:
        if name not in self._operations:
            raise WireError(f"no operation {name!r}; there are: {', '.join(self._operations)}")
        return self._operations[name]

    def _session(self, client: bytes, request: Request) -> Session | None:
        session = self.sessions.get(client)
        if session is None and request.operation == "hello":
            if len(self.sessions) >= MAX_CLIENTS:
                self.malformed += 1
                return None
            session = self.sessions[client] = Session(holder="", heard_s=self.now)
            self.expect(self.silence.expect(client, session))
        if session is None:
            self.malformed += 1
            stranger = ControllerUnreachable(
                "this client is not known here: it was evicted, it was forgotten after a long silence, or "
                "the controller was restarted; connect again"
            )
            self._deliver(client, write_error(request.id, stranger))
            return None
        session.heard_s = self.now
        return session
