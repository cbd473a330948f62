"""The queue's server: a ZeroMQ socket and a clock around the hub.

All waiting happens here, on the server's side, each wait with its deadline; one timer stands at the next
deadline and nothing is polled. Bytes that are no message are counted and cost nothing else. With
`durability="disk"` replies go out once the transaction that holds their operations is committed; what
arrives together is committed together. Where the disk is full it stands still, see `server/standstill.py`,
and tries again: nothing that it answered is lost.
"""

import asyncio
import errno
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

import zmq

from headrace.transferqueue.disk.chronicle import Chronicle, Recovered
from headrace.transferqueue.disk.damage import newest_unread, turn_over
from headrace.transferqueue.disk.journal import Fsync
from headrace.transferqueue.errors import JournalFull, QueueError, Refused, WireError
from headrace.transferqueue.link.addresses import newest_address, require_local, write_address
from headrace.transferqueue.link.keys import make_keys, server_options
from headrace.transferqueue.link.lines import bind, open_socket
from headrace.transferqueue.link.port import Port, monitor
from headrace.transferqueue.link.wire import MAX_MESSAGE_BYTES, Request, read_request, write_reply
from headrace.transferqueue.payload.custody import Custody
from headrace.transferqueue.payload.custody import archive as keep_segment
from headrace.transferqueue.payload.spares import Spares
from headrace.transferqueue.room import LOOK_EVERY_S
from headrace.transferqueue.server.hub import Hub, Terms
from headrace.transferqueue.server.operations import OPERATIONS
from headrace.transferqueue.server.shortages import CHANGED, ITSELF
from headrace.transferqueue.server.standstill import Standstill
from headrace.transferqueue.state.staleness import INFINITE
from headrace.transferqueue.stats import Shortage

Durability = Literal["memory", "disk"]
_LINGER_MS = 500
_REFUSALS = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_log = logging.getLogger(__name__)


class Controller:
    """Serves one queue until it is closed.

        async with Controller(Path("/dev/shm/run"), "ipc:///tmp/run.queue") as controller:
            client = await Client.connect(controller.address, holder="me")

    `address`: tcp on loopback (port `*`: any free one), ipc, or inproc beside its clients. With `keys`, a
    folder for the run's keys (made where there are none), tcp on any interface, encrypted, for clients that
    have the client key.
    `durability`: "memory" empties `directory` at the end; "disk" keeps it, and a controller started on it
    again goes on where the last acknowledged operation left it, at the same address. `fsync`: see
    `journal.Fsync`. `archive` (disk only): rows that leave are kept, see `archive.py`. `give_up_s` (memory
    only): a node whose storage unit was silent for so long has lost its bytes. `fault`: called at "commit
    begun", "committed" and "replied"; a test may end the process there.
    """

    def __init__(
        self,
        directory: Path,
        address: str = "tcp://127.0.0.1:*",
        *,
        context: "zmq.Context[Any] | None" = None,
        durability: Durability = "memory",
        fsync: Fsync = "batch",
        keys: Path | None = None,
        archive: bool = False,
        give_up_s: float = 30.0,
        fault: Callable[[str], object] = lambda point: None,
    ) -> None:
        if keys is None:
            require_local(address)
        else:
            make_keys(keys)
        self._keys = keys
        if durability not in get_args(Durability):
            raise Refused(f"durability is {durability!r}; allowed are {', '.join(get_args(Durability))}")
        if archive and durability != "disk":
            raise Refused(f"an archive needs durability disk, and it is {durability}; leave archive out")
        self.address = address
        self.recovered: Recovered | None = None
        """What a durable queue found when it started; None before, or in memory."""
        self._directory = directory
        self._context = context or zmq.Context.instance()
        self._durable = durability == "disk"
        self._fsync: Fsync = fsync
        self._archive = archive
        self._terms = Terms(give_up_s=give_up_s, sync=self._durable and fsync == "always", archive=archive)
        self._fault = fault
        self._hub: Hub
        self._chronicle: Chronicle | None = None
        self._port: Port | None = None
        self._doorbell: Port | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        self._outbox: list[list[bytes]] = []
        self._standstill: Standstill | None = None
        self._is_full = False
        self._made_directory = False
        self._clock_s = 0.0
        self._loop: asyncio.AbstractEventLoop
        self._closed: asyncio.Future[None]

    async def __aenter__(self) -> "Controller":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Recovers what the directory holds and binds; `address` then names the real port.

        Raises Refused where the address or the directory is another's, JournalError where the past cannot
        be read.
        """
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        self._made_directory = not self._directory.exists()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        custody = Custody(
            self._directory,
            retire=keep_segment if self._archive else None,
            spares=None if self._durable else Spares(self._directory),
        )
        self._hub = Hub(
            self._directory,
            OPERATIONS,
            self._deliver,
            custody=custody,
            terms=self._terms,
            reaches=self._reaches,
        )
        try:
            full = self._recover() if self._durable else None
            self._bind()
            if full is not None:
                self._stand_still(full)
        except BaseException:
            self._close_chronicle()
            if self._made_directory:
                shutil.rmtree(self._directory)
            raise
        if self._durable:
            write_address(self._directory, self.address)

    async def closed(self) -> None:
        """Returns once the controller has been closed; raises JournalError if it could not go on."""
        await asyncio.shield(self._closed)

    async def close(self) -> None:
        """Stops serving, and another may serve at the address; clients then fail within their deadlines. In
        memory it removes every segment."""
        if self._port is not None and self._doorbell is not None and self.address.startswith("tcp://"):
            self._doorbell.close(linger_ms=0)
            await self._port.unbind(self.address)
        self._stop(None)

    def fill(self, full: bool) -> None:
        """A drill: the journal finds no room from now on, or finds it again."""
        self._is_full = full

    def damage(self) -> None:
        """A drill: a byte of the newest cells that wait to be read is turned over. Raises UnknownName where
        there are none."""
        turn_over(self._directory, newest_unread(self._hub.tables.values()))

    def _before_writing(self) -> None:
        if self._is_full:
            raise OSError(errno.ENOSPC, "a full disk was asked for")

    def _recover(self) -> JournalFull | None:
        """Why what was recovered cannot be kept yet; None: it is."""
        self._chronicle = Chronicle(
            self._directory, fsync=self._fsync, archive=self._archive, before_writing=self._before_writing
        )
        self.recovered = self._chronicle.recover(self._hub)
        full = None
        try:
            self._chronicle.commit(self._hub)
        except JournalFull as error:
            full = error
        self._hub.custody.sweep()
        self._clock_s = self.recovered.now - self._loop.time()
        self.address = newest_address(self._directory, self.address)
        for table, rows in self.recovered.dropped.items():
            _log.warning("table %s: the cells of rows %s were torn or lost; they are dropped", table, rows)
        return full

    def _bind(self) -> None:
        options = {} if self._keys is None else server_options(self._keys)
        options |= {zmq.ROUTER_MANDATORY: 1, zmq.ROUTER_HANDOVER: 1}
        socket = open_socket(self._context, zmq.ROUTER, max_bytes=MAX_MESSAGE_BYTES, options=options)
        self.address = bind(socket, self.address, who="the controller")
        self._port = Port(socket, self._on_message)
        self._doorbell = Port(monitor(socket, _REFUSALS), self._on_refusal)
        self._hub.look_ahead()
        self._set_timer()

    def _stop(self, error: QueueError | None) -> None:
        """Ends serving, with nothing acknowledged that is not kept."""
        if self._timer is not None:
            self._timer.cancel()
        if self._turn is not None:
            if error is None and self._standstill is None:
                self._end_turn()
            else:
                self._turn.cancel()
        if self._port is not None:
            self._port.close(linger_ms=_LINGER_MS)
            self._port = None
            if self._doorbell is not None:
                self._doorbell.close(linger_ms=0)
            if self.address.startswith("ipc://"):
                Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)
            if not self._durable:
                self._hub.custody.close()
                if self._made_directory:
                    self._directory.rmdir()
        self._close_chronicle()
        if not self._closed.done():
            if error is None:
                self._closed.set_result(None)
            else:
                self._closed.set_exception(error)
                self._closed.exception()

    def _close_chronicle(self) -> None:
        if self._chronicle is not None:
            self._chronicle.close()
            self._chronicle = None

    def _now(self) -> float:
        return self._loop.time() + self._clock_s

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            if len(frames) != 2:
                raise WireError(f"{len(frames) - 1} frames; one is due")
            request = read_request(frames[1])
        except WireError as error:
            self._hub.malformed += 1
            _log.debug("refused a message: %s", error)
            return
        if self._standstill is None:
            self._hub.handle(frames[0], request, self._now())
            self._after_event()
        elif (answer := self._while_full(self._standstill, frames[0], request)) is not None:
            self._send([frames[0], answer])

    def _while_full(self, standstill: Standstill, client: bytes, request: Request) -> bytes | None:
        """What a client is told at once; None: it hears of the hub, or waits."""
        waits = standstill.park(client, request)
        answer = standstill.answer(client, request, known=client in self._hub.sessions)
        if answer is None and not waits:
            self._hub.handle(client, request, standstill.since_s)
        return answer

    def _on_refusal(self, frames: list[bytes]) -> None:
        """Somebody at the door spoke no ZeroMQ or had no key."""
        self._hub.malformed += 1

    def _deliver(self, client: bytes, reply: bytes) -> None:
        if self._standstill is not None:
            if not self._standstill.withhold([client, reply]):
                self._send([client, reply])
        elif self._chronicle is not None:
            self._outbox.append([client, reply])
        else:
            self._send([client, reply])

    def _send(self, frames: list[bytes]) -> None:
        if self._port is not None:
            self._port.send(frames)

    def _reaches(self, client: bytes) -> bool:
        """Whether a client's line is up; what it gets answers no request, and it lets it be."""
        return self._port is not None and self._port.send([client, write_reply(0, {})])

    def _after_event(self) -> None:
        if self._chronicle is None:
            self._hub.custody.sweep()
        elif self._turn is None:
            self._turn = self._loop.call_soon(self._end_turn)
        self._set_timer()

    def _end_turn(self) -> None:
        """Commits what this turn of the loop did, then says so."""
        self._turn = None
        if self._chronicle is None:
            return
        self._fault("commit begun")
        try:
            self._chronicle.commit(self._hub)
        except JournalFull as full:
            self._stand_still(full)
            return
        except QueueError as error:
            _log.critical("%s", error)
            self._stop(error)
            return
        self._fault("committed")
        standstill, self._standstill = self._standstill, None
        replies, self._outbox = self._outbox, []
        for frames in (*(standstill.withheld() if standstill else ()), *replies):
            self._send(frames)
        self._fault("replied")
        self._hub.custody.sweep()
        if standstill is not None:
            self._go_on(standstill)

    def _stand_still(self, full: JournalFull) -> None:
        """Until the journal has room, which is looked for; see `Standstill`."""
        assert self._chronicle is not None
        if self._standstill is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            answers, self._outbox = self._outbox, []
            self._standstill = Standstill(self._now(), self._chronicle.unkept, answers)
            for frames in self._standstill.free:
                self._send(frames)
            self._announce(full)
        self._turn = self._loop.call_later(LOOK_EVERY_S, self._end_turn)

    def _announce(self, full: JournalFull) -> None:
        _log.warning("paused: %s; make room in %s", full, self._directory)
        shortage = Shortage(
            holder="",
            directory=str(self._directory),
            needed_bytes=full.needed_bytes,
            reason=str(full),
            since=time.time(),
        )
        self._hub.shortages.begin(ITSELF, shortage)
        self._hub.retry(CHANGED)

    def _go_on(self, standstill: Standstill) -> None:
        """Does what was parked, on a clock that stood."""
        _log.warning("there is room in %s; the queue goes on", self._directory)
        self._clock_s = standstill.since_s - self._loop.time()
        self._hub.shortages.end(ITSELF)
        self._hub.retry(CHANGED)
        for (client, _), request in standstill.parked.items():
            self._hub.handle(client, request, self._now())
        self._hub.look_ahead()
        self._after_event()

    def _set_timer(self) -> None:
        """A timer that stands earlier is left: it finds the next deadline itself."""
        due = self._hub.due - self._clock_s
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
            self._timer = None
        if due < INFINITE:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._hub.tick(self._now())
        self._after_event()
