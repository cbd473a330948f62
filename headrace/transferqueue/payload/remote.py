"""Blocks of other nodes, streamed from their storage units in pieces, and kept for the leases that follow.

Invariant: what is kept is bounded in bytes; a block is fetched whole or not at all, within the deadline.
"""

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pyarrow as pa
import zmq

from headrace.transferqueue.errors import PayloadError
from headrace.transferqueue.link.asking import Line
from headrace.transferqueue.payload.segments import Reference, require_whole

PIECE_BYTES = 8 << 20
_PIECES_ASKED = 4
_KEPT_BYTES = 256 << 20


class RemoteReader:
    """One line to each unit that was asked; `timeout_s` is how long a unit may be silent."""

    def __init__(self, *, timeout_s: float, context: "zmq.Context[Any] | None", keys: Path | None) -> None:
        self._timeout_s = timeout_s
        self._context = context or zmq.Context.instance()
        self._keys = keys
        self._lines: dict[str, Line] = {}
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
            self._lines[address] = Line(
                address, max_bytes=2 * PIECE_BYTES, keys=self._keys, context=self._context
            )
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
        require_whole(memoryview(whole), reference)
        return pa.py_buffer(whole)

    def _keep(self, reference: Reference, block: pa.Buffer) -> None:
        self._kept[reference] = block
        self._kept_bytes += block.size
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popitem(last=False)[1].size
