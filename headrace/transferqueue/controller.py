"""The queue's server: a ZeroMQ socket and a clock around the hub.

All waiting happens here, on the server's side, each wait with its deadline; one timer stands at the next
deadline and nothing is polled. Bytes that are no message are counted and cost nothing else.
"""

import asyncio
import ipaddress
import logging
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import zmq

from headrace.transferqueue.errors import Refused, WireError
from headrace.transferqueue.hub import Hub
from headrace.transferqueue.operations import OPERATIONS
from headrace.transferqueue.port import Port
from headrace.transferqueue.wire import MAX_MESSAGE_BYTES, read_request

_LINGER_MS = 500
_log = logging.getLogger(__name__)


class Controller:
    """Serves one queue until it is closed; payload lives under `directory`, which it empties at the end.

        async with Controller(Path("/dev/shm/run"), "ipc:///tmp/run.queue") as controller:
            client = await Client.connect(controller.address, holder="me")

    `address`: tcp on loopback (port `*`: any free one), ipc, or inproc beside its clients.
    """

    def __init__(
        self,
        directory: Path,
        address: str = "tcp://127.0.0.1:*",
        *,
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        _require_local(address)
        self.address = address
        self._directory = directory
        self._context = context or zmq.Context.instance()
        self._hub = Hub(directory, OPERATIONS, self._deliver)
        self._port: Port | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._made_directory = False
        self._closed = asyncio.Event()

    async def __aenter__(self) -> "Controller":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Binds; `address` then names the real port."""
        self._made_directory = not self._directory.exists()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        socket = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            socket.bind(self.address)
        except zmq.ZMQError as error:
            socket.close(0)
            raise Refused(f"the controller cannot bind {self.address}: {error}") from error
        self.address = socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        self._port = Port(socket, self._on_message)

    async def closed(self) -> None:
        """Returns once the controller has been closed."""
        await self._closed.wait()

    async def close(self) -> None:
        """Stops serving and removes every segment; clients then fail within their deadlines."""
        if self._timer is not None:
            self._timer.cancel()
        if self._port is not None:
            self._port.close(linger_ms=_LINGER_MS)
            self._port = None
            if self.address.startswith("ipc://"):
                Path(self.address.removeprefix("ipc://")).unlink(missing_ok=True)
            self._hub.custody.close()
            if self._made_directory:
                self._directory.rmdir()
        self._closed.set()

    def _on_message(self, frames: list[bytes]) -> None:
        now = asyncio.get_running_loop().time()
        try:
            if len(frames) != 2:
                raise WireError(f"{len(frames) - 1} frames; one is due")
            request = read_request(frames[1])
        except WireError as error:
            self._hub.malformed += 1
            _log.debug("refused a message: %s", error)
            return
        self._hub.handle(frames[0], request, now)
        self._set_timer()

    def _deliver(self, client: bytes, reply: bytes) -> None:
        if self._port is not None:
            self._port.send([client, reply])

    def _set_timer(self) -> None:
        due = self._hub.next_deadline()
        if self._timer is not None:
            if due is not None and self._timer.when() == due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._hub.tick(asyncio.get_running_loop().time())
        self._set_timer()


def _require_local(address: str) -> None:
    parts = urlsplit(address.replace(":*", ""))
    if parts.scheme in ("inproc", "ipc"):
        return
    try:
        local = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        local = False
    if parts.scheme != "tcp" or not local:
        raise Refused(
            f"address {address!r} is not local; allowed are tcp on 127.0.0.1, localhost or [::1], ipc://PATH "
            "and inproc://NAME"
        )
