"""One storage unit per node: it serves the segments that this node's clients write to clients of others.

    async with StorageUnit(directory, controller.address, node="b", address="tcp://10.0.0.2:*") as unit:
        client = await Client.connect(controller.address, holder="answers/1", node="b")

Clients of the node map its files and need the unit only to be there. Segments are removed when the controller
says so. A unit of a durable queue comes back with what it held; in memory it starts empty.
"""

import asyncio
import logging
import os
import re
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any

import zmq

from headrace.transferqueue.addresses import require_local
from headrace.transferqueue.connection import Connection
from headrace.transferqueue.errors import ControllerUnreachable, QueueError, Refused, WaitTimeout, WireError
from headrace.transferqueue.keys import server_options
from headrace.transferqueue.nodes import ATTEND_S
from headrace.transferqueue.payload.remote import PIECE_BYTES
from headrace.transferqueue.port import Port
from headrace.transferqueue.wire import pack, unpack

_SEGMENT = re.compile(r"[0-9a-f]{1,32}-\d{6,12}\.arrows")
_INCARNATION = "incarnation"
_MAX_REQUEST_BYTES = 4096
_MAX_OFFSET = 1 << 48
_log = logging.getLogger(__name__)


class StorageUnit:
    """Serves `directory` under the name of its node; `node=""` is the controller's own, and its directory.

    `keys`: the run's keys, for an address beyond this machine; the unit needs both of them.
    """

    def __init__(
        self,
        directory: Path,
        controller: str,
        *,
        node: str,
        address: str = "tcp://127.0.0.1:*",
        timeout_s: float = 10.0,
        keys: Path | None = None,
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        if keys is None:
            require_local(address)
        self.node = node
        self.address = address
        self._directory = directory
        self._controller = controller
        self._timeout_s = timeout_s
        self._keys = keys
        self._context = context or zmq.Context.instance()
        self._durable = False
        self._incarnation = ""
        self._connection: Connection
        self._port: Port
        self._attending: asyncio.Task[None]

    async def __aenter__(self) -> "StorageUnit":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Binds and registers; `address` then names the real port."""
        self._connection = Connection(
            self._controller,
            timeout_s=self._timeout_s,
            context=self._context,
            on_lost=lambda leases: None,
            on_orphan=lambda body: None,
            held=lambda: [],
            keys=self._keys,
        )
        try:
            hello = await self._connection.request("hello", {"holder": f"storage/{self.node}"})
            self._durable = hello["durable"]
            self._prepare()
            self._bind()
            await self._connection.request("unit", self._card())
        except BaseException:
            self._connection.close(ControllerUnreachable("the storage unit did not start"))
            raise
        self._attending = asyncio.create_task(self._attend())

    async def closed(self) -> None:
        """Returns once it was closed; raises what made it stop: the controller is gone or gave it up."""
        await asyncio.wait([self._attending])
        if not self._attending.cancelled():
            self._attending.result()

    async def close(self) -> None:
        """Stops serving. In memory the node's segments go."""
        self._attending.cancel()
        await asyncio.wait([self._attending])
        self._port.close(linger_ms=0)
        self._connection.close(ControllerUnreachable("the storage unit is closed"))
        if not self._durable and self.node:
            self._empty()

    def _prepare(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = self._directory / _INCARNATION
        if not self.node:
            self._incarnation = "controller"
        elif self._durable and mark.exists():
            self._incarnation = mark.read_text()
        else:
            self._empty()
            self._incarnation = secrets.token_hex(8)
            mark.write_text(self._incarnation)

    def _empty(self) -> None:
        for path in self._directory.glob("*.arrows"):
            path.unlink(missing_ok=True)
        (self._directory / _INCARNATION).unlink(missing_ok=True)

    def _bind(self) -> None:
        options = {} if self._keys is None else server_options(self._keys)
        socket = self._context.socket(zmq.ROUTER)
        for option, value in options.items():
            socket.setsockopt(option, value)
        socket.setsockopt(zmq.MAXMSGSIZE, _MAX_REQUEST_BYTES)
        try:
            socket.bind(self.address)
        except zmq.ZMQError as error:
            socket.close(0)
            raise Refused(f"the storage unit cannot bind {self.address}: {error}") from error
        self.address = socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        self._port = Port(socket, self._on_message)

    def _card(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "address": self.address,
            "directory": str(self._directory),
            "incarnation": self._incarnation,
            "holds": [path.name for path in self._directory.glob("*.arrows")] if self.node else [],
        }

    async def _attend(self) -> None:
        done: list[str] = []
        while True:
            fields = {"node": self.node, "incarnation": self._incarnation, "done": done}
            try:
                body = await self._connection.request("attend", {**fields, "timeout_s": ATTEND_S})
            except WaitTimeout:
                done = []
                continue
            except QueueError as error:
                _log.error("storage unit of node %s stops: %s", self.node, error)
                raise
            done = body["remove"]
            for name in done:
                if _SEGMENT.fullmatch(name):
                    (self._directory / name).unlink(missing_ok=True)

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            request = unpack(frames[-1])
        except WireError:
            return
        match request:
            case [int(number), str(segment), int(offset), int(length)]:
                error, data = self._piece(segment, offset, length)
                self._port.send([frames[0], pack([number, error]), data])

    def _piece(self, segment: str, offset: int, length: int) -> tuple[str, bytes]:
        if not _SEGMENT.fullmatch(segment) or not 0 <= offset < _MAX_OFFSET or not 0 < length <= PIECE_BYTES:
            return f"piece [{offset}, {offset + length}) of {segment!r} is not one that may be asked for", b""
        try:
            file = os.open(self._directory / segment, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            return f"segment {segment} of node {self.node!r} cannot be read: {error}", b""
        try:
            data = os.pread(file, length, offset)
        finally:
            os.close(file)
        return ("" if len(data) == length else f"segment {segment} ends before {offset + length}"), data
