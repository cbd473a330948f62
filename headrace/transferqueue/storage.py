"""One storage unit per node: it serves the segments that this node's clients write to clients of others.

    async with StorageUnit(directory, controller.address, node="b", address="tcp://10.0.0.2:*") as unit:
        client = await Client.connect(controller.address, holder="answers/1", node="b")

Clients of the node map its files and need the unit only to be there. Segments are removed when the controller
says so. A unit of a durable queue comes back with what it held, at its address; in memory it starts empty.
One that is cut off goes on serving its node, and is heard of again when the line is back.
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

from headrace.transferqueue.errors import ControllerUnreachable, QueueError, WaitTimeout, WireError
from headrace.transferqueue.link.addresses import UNIT, newest_address, require_local, write_address
from headrace.transferqueue.link.connection import Connection
from headrace.transferqueue.link.keys import server_options
from headrace.transferqueue.link.lines import bind, open_socket
from headrace.transferqueue.link.port import Port
from headrace.transferqueue.link.wire import pack, unpack
from headrace.transferqueue.payload.custody import archive as keep_segment
from headrace.transferqueue.payload.remote import PIECE_BYTES
from headrace.transferqueue.payload.segments import is_whole
from headrace.transferqueue.server.nodes import ATTEND_S

_SEGMENT = re.compile(r"[0-9a-f]{1,32}-\d{6,12}\.arrows")
_INCARNATION = "incarnation"
_MAX_REQUEST_BYTES = 4096
_MAX_OFFSET = 1 << 48
_log = logging.getLogger(__name__)


class StorageUnit:
    """Serves `directory` under the name of its node; `node=""` is the controller's own, and its directory.

    `advertise`: where clients of other nodes reach it, if that is not what it binds. `patience_s`: how long
    the controller may be away before the unit stops. `keys`: the run's keys, for an address beyond this
    machine; the unit needs both of them.
    """

    def __init__(
        self,
        directory: Path,
        controller: str,
        *,
        node: str,
        address: str = "tcp://127.0.0.1:*",
        advertise: str | None = None,
        timeout_s: float = 10.0,
        patience_s: float = 600.0,
        keys: Path | None = None,
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        if keys is None:
            require_local(address)
            require_local(advertise or address)
        self.node = node
        self.address = address
        self._directory = directory
        self._controller = controller
        self._advertise = advertise
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._keys = keys
        self._context = context or zmq.Context.instance()
        self._durable = self._archives = False
        self._incarnation = ""
        self._connection: Connection
        self._port: Port | None = None
        self._attending: asyncio.Task[None]

    async def __aenter__(self) -> "StorageUnit":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Binds and registers; `address` then names the real port.

        A durable unit first reads its blocks: rows whose cells are not as they were written are reported.
        """
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
            await self._greet()
            known = self._prepare()
            torn = await self._torn() if known else []
            self._bind()
            await self._connection.request("unit", {**self._card(), "torn": torn})
        except BaseException:
            if self._port is not None:
                self._port.close(linger_ms=0)
            self._connection.post("goodbye", {})
            self._connection.close(ControllerUnreachable("the storage unit did not start"))
            raise
        self._attending = asyncio.create_task(self._attend())

    async def closed(self) -> None:
        """Returns once it was closed; raises what made it stop: the controller gave it up, or stayed away for
        `patience_s`."""
        await asyncio.wait([self._attending])
        if not self._attending.cancelled():
            self._attending.result()

    async def close(self) -> None:
        """Stops serving and says so, without waiting for an answer. In memory the node's segments go."""
        self._attending.cancel()
        await asyncio.wait([self._attending])
        if self._port is not None:
            if self.address.startswith("tcp://"):
                await self._port.unbind(self.address)
            self._port.close(linger_ms=0)
        self._connection.post("leave", {"node": self.node, "incarnation": self._incarnation})
        self._connection.close(ControllerUnreachable("the storage unit is closed"))
        if not self._durable and self.node:
            self._empty()

    async def _greet(self) -> None:
        fields = {"holder": f"storage/{self.node}", "patience_s": self._timeout_s}
        self._durable = (await self._connection.request("hello", fields))["durable"]
        self._archives = (await self._connection.request("terms", {}))["archive"]

    async def _torn(self) -> list[list[Any]]:
        """Blocks that should be here and are not as they were written."""
        due = (await self._connection.request("inventory", {"node": self.node}))["blocks"]

        def look() -> list[list[Any]]:
            return [
                [segment, offset]
                for segment, offset, length, checksum in due
                if not is_whole(self._directory / segment, offset, length, checksum)
            ]

        return await asyncio.to_thread(look)

    def _prepare(self) -> bool:
        """Whether the directory holds what another life of this unit served."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = self._directory / _INCARNATION
        if not self.node:
            self._incarnation = "controller"
        elif self._durable and mark.exists():
            self._incarnation = mark.read_text()
            return True
        else:
            self._empty()
            self._incarnation = secrets.token_hex(8)
            mark.write_text(self._incarnation)
        return False

    def _empty(self) -> None:
        for path in self._directory.glob("*.arrows"):
            path.unlink(missing_ok=True)
        (self._directory / _INCARNATION).unlink(missing_ok=True)

    def _bind(self) -> None:
        options = {} if self._keys is None else server_options(self._keys)
        socket = open_socket(self._context, zmq.ROUTER, max_bytes=_MAX_REQUEST_BYTES, options=options)
        wanted = newest_address(self._directory, self.address, name=UNIT) if self._durable else self.address
        self.address = bind(socket, wanted, who="the storage unit")
        if self._durable:
            write_address(self._directory, self.address, name=UNIT)
        self._port = Port(socket, self._on_message)

    def _card(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "address": self._advertise or self.address,
            "directory": str(self._directory),
            "incarnation": self._incarnation,
            "holds": [path.name for path in self._directory.glob("*.arrows")] if self.node else [],
        }

    async def _attend(self) -> None:
        """Shows the controller that the unit is there, over any break that is not too long."""
        loop = asyncio.get_running_loop()
        done: list[str] = []
        heard_s = loop.time()
        while True:
            fields = {"node": self.node, "incarnation": self._incarnation, "done": done}
            try:
                done = await self._remove({**fields, "timeout_s": ATTEND_S})
                heard_s = loop.time()
            except ControllerUnreachable as error:
                if loop.time() - heard_s > self._patience_s:
                    raise
                _log.warning("storage unit of node %s goes on serving: %s", self.node, error)
                done = []
            except QueueError as error:
                _log.error("storage unit of node %s stops: %s", self.node, error)
                raise

    async def _remove(self, fields: dict[str, Any]) -> list[str]:
        """Waits for segments to remove; returns those that were. A controller that forgot this unit in a
        long silence is greeted anew; what it said of the unit stands."""
        try:
            names = (await self._connection.request("attend", fields))["remove"]
        except WaitTimeout:
            return []
        except ControllerUnreachable:
            await self._greet()
            return []
        for name in names:
            path = self._directory / name
            if _SEGMENT.fullmatch(name):
                keep_segment(path) if self._archives else path.unlink(missing_ok=True)
        return names

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            request = unpack(frames[-1])
        except WireError:
            return
        match request:
            case [int(number), str(segment), int(offset), int(length)]:
                error, data = self._piece(segment, offset, length)
                assert self._port is not None
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
