"""Blocks of other nodes, streamed from their storage units in pieces, and kept for the leases that follow.

Invariant: what is kept is bounded in bytes; a block is fetched whole or not at all, within the deadline. What
was asked for on a line that broke is asked for again on the next.
"""

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pyarrow as pa
import zmq

from headrace.transferqueue.errors import PayloadError, WireError
from headrace.transferqueue.link.keys import client_options
from headrace.transferqueue.link.lines import open_socket
from headrace.transferqueue.link.port import Port, monitor
from headrace.transferqueue.link.wire import pack, unpack
from headrace.transferqueue.payload.segments import Reference

PIECE_BYTES = 8 << 20
_PIECES_ASKED = 4
_KEPT_BYTES = 256 << 20


class RemoteReader:
    """One line to each unit that was asked; `timeout_s` is how long a unit may be silent."""

    def __init__(self, *, timeout_s: float, context: "zmq.Context[Any] | None", keys: Path | None) -> None:
        self._timeout_s = timeout_s
        self._context = context or zmq.Context.instance()
        self._keys = keys
        self._lines: dict[str, _Line] = {}
        self._kept: OrderedDict[Reference, pa.Buffer] = OrderedDict()
        self._kept_bytes = 0

    async def read(self, reference: Reference, address: str) -> pa.RecordBatch:
        """The batch of a block; TimeoutError when the unit is silent, PayloadError when it lacks it."""
        if reference not in self._kept:
            self._keep(reference, await self._fetch(reference, address))
        self._kept.move_to_end(reference)
        try:
            return pa.ipc.open_stream(self._kept[reference]).read_next_batch()
        except (pa.ArrowException, StopIteration) as error:
            raise PayloadError(f"{reference} holds no block: {error}") from error

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._lines.clear()
        self._kept.clear()

    async def _fetch(self, reference: Reference, address: str) -> pa.Buffer:
        if address not in self._lines:
            self._lines[address] = _Line(self._context, address, self._keys)
        line, whole = self._lines[address], bytearray(reference.length)
        turns = asyncio.Semaphore(_PIECES_ASKED)

        async def piece(start: int) -> None:
            end = min(start + PIECE_BYTES, reference.length)
            async with turns, asyncio.timeout(self._timeout_s):
                whole[start:end] = await line.ask(reference.segment, reference.offset + start, end - start)

        tasks = [asyncio.create_task(piece(start)) for start in range(0, reference.length, PIECE_BYTES)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
        for error in [task.exception() for task in done]:
            if error is not None:
                raise error
        return pa.py_buffer(whole)

    def _keep(self, reference: Reference, block: pa.Buffer) -> None:
        self._kept[reference] = block
        self._kept_bytes += block.size
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popitem(last=False)[1].size


class _Line:
    def __init__(self, context: "zmq.Context[Any]", address: str, keys: Path | None) -> None:
        options = {} if keys is None else client_options(keys)
        socket = open_socket(context, zmq.DEALER, max_bytes=2 * PIECE_BYTES, options=options)
        self._monitor = Port(monitor(socket, zmq.EVENT_HANDSHAKE_SUCCEEDED), self._on_line)
        socket.connect(address)
        self._port = Port(socket, self._on_message)
        self._asked: dict[int, tuple[bytes, asyncio.Future[bytes]]] = {}
        self._lines = self._numbers = 0

    async def ask(self, segment: str, offset: int, length: int) -> bytes:
        self._numbers += 1
        number = self._numbers
        request = pack([number, segment, offset, length])
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
        """Takes an answer; whatever else a unit sends is none, and its reader's deadline passes."""
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
