"""A line on which bytes are asked for: numbered questions out, each answered by bytes or by what is wrong.

    line = Line(address, max_bytes=16 << 20)
    data = await line.ask("segment", 0, 4096)

Invariant: what was asked on a line that broke is asked again on the next; an answer that nobody waits for any
more is dropped. How long to wait is up to who asks.
"""

import asyncio
from pathlib import Path
from typing import Any

import zmq

from headrace.transferqueue.errors import PayloadError, WireError
from headrace.transferqueue.link.keys import client_options
from headrace.transferqueue.link.lines import open_socket
from headrace.transferqueue.link.port import Port, monitor
from headrace.transferqueue.link.wire import pack, unpack


class Line:
    """To one server, whose answers have at most `max_bytes`.

    `keys`: the run's, for an address beyond this machine.
    """

    def __init__(
        self,
        address: str,
        *,
        max_bytes: int,
        keys: Path | None = None,
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        options = {} if keys is None else client_options(keys)
        socket = open_socket(
            context or zmq.Context.instance(), zmq.DEALER, max_bytes=max_bytes, options=options
        )
        self._monitor = Port(monitor(socket, zmq.EVENT_HANDSHAKE_SUCCEEDED), self._on_line)
        socket.connect(address)
        self._port = Port(socket, self._on_message)
        self._asked: dict[int, tuple[bytes, asyncio.Future[bytes]]] = {}
        self._lines = self._numbers = 0

    async def ask(self, *words: Any) -> bytes:
        """Plain data out, bytes back. Raises PayloadError with what the server says is wrong."""
        self._numbers += 1
        number = self._numbers
        request = pack([number, *words])
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[number] = request, future
        self._port.send([request])
        try:
            return await future
        finally:
            del self._asked[number]

    def close(self) -> None:
        self._monitor.close(linger_ms=0)
        self._port.close(linger_ms=0)

    def _on_line(self, frames: list[bytes]) -> None:
        self._lines += 1
        if self._lines > 1:
            for request, _ in self._asked.values():
                self._port.send([request])

    def _on_message(self, frames: list[bytes]) -> None:
        """Takes an answer; whatever else a server sends is none, and the asker's deadline passes."""
        try:
            answer = unpack(frames[0])
        except WireError:
            return
        match answer, frames[1:]:
            case [int(number), str(error)], [data]:
                _, future = self._asked.get(number, (b"", None))
                if future is None or future.done():
                    return
                if error:
                    future.set_exception(PayloadError(error))
                else:
                    future.set_result(data)
