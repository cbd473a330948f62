"""A client's blocks on their way into its segments: on disk they wait for room, and the queue is told.

    room? ─► written ─► the controller hears where
      ▲        └─► full: the queue says who waits, where, and for how many bytes ─┐
      └── tried again ◄───────────────────────────────────────────────────────────┘

Invariant: what is written is whole, and no block is lost to a full disk. In memory nobody waits: PayloadFull
is raised, as room comes there by other rows that leave alone.
"""

import asyncio
import time
from pathlib import Path

import pyarrow as pa

from headrace.transferqueue.errors import PayloadFull
from headrace.transferqueue.link.connection import Connection
from headrace.transferqueue.payload.segments import Reference
from headrace.transferqueue.payload.writing import SegmentWriter
from headrace.transferqueue.room import LOOK_EVERY_S


class Placing:
    """Of one client; `waits`: for room, as on disk."""

    def __init__(
        self, writer: SegmentWriter, connection: Connection, directory: Path, *, waits: bool
    ) -> None:
        self._writer = writer
        self._connection = connection
        self._directory = directory
        self._waits = waits
        self._waiting = 0

    async def place(self, batch: pa.RecordBatch) -> Reference:
        """Raises PayloadError where the block cannot be written, and PayloadFull where nobody waits."""
        try:
            return self._writer.append(batch)
        except PayloadFull as full:
            if not self._waits:
                raise
            return await self._once_there_is_room(batch, full)

    def undo(self, reference: Reference) -> None:
        """See `SegmentWriter.undo`."""
        self._writer.undo(reference)

    def close(self) -> None:
        self._writer.close()

    async def _once_there_is_room(self, batch: pa.RecordBatch, full: PayloadFull) -> Reference:
        self._waiting += 1
        try:
            if self._waiting == 1:
                await self._say(batch.nbytes, str(full))
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                try:
                    return self._writer.append(batch)
                except PayloadFull:
                    continue
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._connection.post("short", {"needed_bytes": 0})

    async def _say(self, needed_bytes: int, reason: str) -> None:
        where = {"directory": str(self._directory), "reason": reason, "since": time.time()}
        await self._connection.request("short", {"needed_bytes": needed_bytes, **where})
