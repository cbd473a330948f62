"""A client's line to the controller: requests with ids, answers to whoever asked, one pulse for all.

While a request is pending or a lease is held, a pulse goes out: it renews the leases, finds requests that
never arrived (they are sent again, under the same id) and shows that somebody is there. When the line is
up again after a break, all that is pending goes out again, in order: the controller does nothing twice.
Silence beyond `timeout_s` fails everything pending with ControllerUnreachable.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import zmq

from headrace.transferqueue.errors import ControllerUnreachable, QueueError, WireError
from headrace.transferqueue.link.keys import client_options
from headrace.transferqueue.link.lines import open_socket
from headrace.transferqueue.link.port import Port, monitor
from headrace.transferqueue.link.wire import MAX_MESSAGE_BYTES, pack_ints, read_reply, write_request

_LINGER_MS = 200


class Connection:
    """One DEALER socket.

    `held()` names the leases to renew; `on_lost(leases)` hears of those that ended, `on_orphan(body)` of
    answers whose asker was cancelled.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float,
        context: "zmq.Context[Any] | None",
        on_lost: Callable[[list[int]], None],
        on_orphan: Callable[[Any], None],
        held: Callable[[], list[int]],
        keys: Path | None = None,
    ) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self.identity = b"c" + secrets.token_bytes(7)
        self.pulse_s = timeout_s / 3
        self._patience_s = timeout_s - self.pulse_s
        self._held = held
        self.let_go: Callable[[], dict[str, int]] = dict
        """Segments that the next message reports as looked at no more; see `Views.let_go`."""
        self._on_lost = on_lost
        self._on_orphan = on_orphan
        self._loop = asyncio.get_running_loop()
        options = {} if keys is None else client_options(keys)
        options[zmq.IDENTITY] = self.identity
        socket = open_socket(
            context or zmq.Context.instance(), zmq.DEALER, max_bytes=MAX_MESSAGE_BYTES, options=options
        )
        self._monitor = Port(monitor(socket, zmq.EVENT_HANDSHAKE_SUCCEEDED), self._on_line)
        socket.connect(address)
        self._port = Port(socket, self._on_message)
        self._lines = 0
        self._numbers = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._sent: dict[int, bytes] = {}
        self._cancelled: set[int] = set()
        self._heard_s = self._pulse_sent_s = self._loop.time()
        self._pulse: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def closed(self) -> bool:
        return self._port.closed

    async def hello(self, holder: str, node: str) -> dict[str, Any]:
        """Says who is there; what the answer holds for cells that are written on `node`. Closes the line
        where nobody answers."""
        try:
            who = {"holder": holder, "node": node, "patience_s": self.timeout_s}
            terms = await self.request("hello", who)
            return {**terms, "sync": bool(node) and (await self.request("terms", {}))["sync"]}
        except BaseException:
            self.close(ControllerUnreachable("the client did not connect"))
            raise

    async def request(self, operation: str, fields: Mapping[str, Any]) -> Any:
        """The body of the answer, or the error raised that came instead of it."""
        if self._port.closed:
            raise ControllerUnreachable(f"the connection to {self.address} is closed; connect again")
        number, future = self._post(operation, fields)
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(number, future)
            raise
        finally:
            self._forget(number)

    def post(
        self, operation: str, fields: Mapping[str, Any], then: Callable[[], None] = lambda: None
    ) -> None:
        """Sends a request whose answer nobody waits for; `then` is called once it is there."""
        if not self._port.closed:
            number, future = self._post(operation, fields)
            future.add_done_callback(lambda done: self._on_posted(number, done, then))

    def quicken(self, pulse_s: float) -> None:
        """Beats at least this often from now on."""
        if pulse_s < self.pulse_s:
            self.pulse_s = pulse_s
            self._stop_timer()
        self._keep_up()

    def close(self, error: QueueError) -> None:
        """Closes the socket; whatever is pending fails with `error`."""
        self._stop_timer()
        self._monitor.close(linger_ms=0)
        self._port.close(linger_ms=_LINGER_MS)
        self._fail(error)

    def _post(self, operation: str, fields: Mapping[str, Any]) -> tuple[int, asyncio.Future[Any]]:
        self._numbers += 1
        number = self._numbers
        since = min(self._pending, default=number)
        let_go = self.let_go()
        if let_go:
            fields = {**fields, "let_go": let_go}
        data = write_request(number, since, operation, fields)
        future = self._pending[number] = self._loop.create_future()
        self._sent[number] = data
        self._port.send([data])
        self._keep_up()
        return number, future

    def _keep_up(self) -> None:
        if self._timer is None and not self._port.closed:
            delay_s = self.pulse_s
            if self._pulse is not None:
                delay_s = min(delay_s, max(0.0, self._patience_s - self._silence_s()))
            self._timer = self._loop.call_later(delay_s, self._beat)

    def _silence_s(self) -> float:
        """Since the pulse that is out, or since the last message if that came later."""
        return self._loop.time() - max(self._heard_s, self._pulse_sent_s)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget(self, number: int) -> None:
        self._pending.pop(number, None)
        self._sent.pop(number, None)

    def _abandon(self, number: int, future: "asyncio.Future[Any]") -> None:
        """The asker was cancelled: takes the request back, or what it was answered."""
        if future.done() and not future.cancelled():
            if future.exception() is None:
                self._on_orphan(future.result())
        elif not self._port.closed:
            self._cancelled.add(number)
            self.post("cancel", {"request": number}, lambda: self._cancelled.discard(number))

    def _on_posted(self, number: int, done: "asyncio.Future[Any]", then: Callable[[], None]) -> None:
        self._forget(number)
        if not done.cancelled():
            done.exception()
        then()

    def _on_message(self, frames: list[bytes]) -> None:
        self._heard_s = self._loop.time()
        try:
            number, body = read_reply(frames[-1])
        except WireError as error:
            self._fail(error)
            return
        future = self._pending.get(number)
        if future is not None and not future.done():
            if isinstance(body, QueueError):
                future.set_exception(body)
            else:
                future.set_result(body)
        elif number in self._cancelled or (future is not None and future.cancelled()):
            self._cancelled.discard(number)
            if not isinstance(body, QueueError):
                self._on_orphan(body)

    def _on_line(self, frames: list[bytes]) -> None:
        """The socket has a connection; every one but the first may have swallowed what was sent."""
        self._lines += 1
        if self._lines > 1:
            for number in sorted(self._sent):
                self._port.send([self._sent[number]])

    def _beat(self) -> None:
        self._timer = None
        waiting = [number for number, future in self._pending.items() if not future.done()]
        leases = self._held()
        if not waiting and not leases:
            return
        if self._pulse is not None and self._silence_s() >= self._patience_s:
            self._fail(
                ControllerUnreachable(
                    f"the controller at {self.address} has been silent for {self.timeout_s:g} s; "
                    f"{len(waiting)} requests and {len(leases)} leases are given up: is it running?"
                )
            )
            return
        if self._pulse is None:
            fields = {"leases": pack_ints(leases), "pending": pack_ints(waiting)}
            self._pulse_sent_s = self._loop.time()
            self._pulse, future = self._post("pulse", fields)
            future.add_done_callback(self._on_pulse)
        self._keep_up()

    def _on_pulse(self, future: "asyncio.Future[Any]") -> None:
        number, self._pulse = self._pulse, None
        if number is not None:
            self._forget(number)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._fail(error if isinstance(error, QueueError) else QueueError(str(error)))
        elif not future.cancelled():
            self._on_lost(future.result()["lost"])
            for missing in future.result()["unknown"]:
                if missing in self._sent:
                    self._port.send([self._sent[missing]])

    def _fail(self, error: QueueError) -> None:
        for future in list(self._pending.values()):
            if not future.done():
                future.set_exception(error)
