"""Where a client's cells come from: this node's memory, or another node's storage unit.

A unit that does not answer is never waited for beyond the deadline, and what became of its rows is said.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zmq

from headrace.transferqueue.errors import CellsDamaged, PayloadError, UnitLost, WriteConflict
from headrace.transferqueue.link.connection import Connection
from headrace.transferqueue.payload.gather import Piece
from headrace.transferqueue.payload.remote import RemoteReader
from headrace.transferqueue.payload.segments import Reference, SegmentReader
from headrace.transferqueue.payload.views import Views


class BlockReader:
    """Reads blocks for a client of `node`, whose own segments are under `directory`.

    `watched`: it can say which of the controller's segments are looked at no more, so that their files are
    written again; those of other nodes are written once.
    """

    def __init__(
        self,
        node: str,
        directory: Path,
        connection: Connection,
        *,
        context: "zmq.Context[Any] | None",
        keys: Path | None,
        watched: bool,
    ) -> None:
        self._node = node
        self._connection = connection
        self._views = Views() if watched else None
        self._local = SegmentReader(directory, None if node else self._views)
        self._remote = RemoteReader(timeout_s=connection.timeout_s, context=context, keys=keys)

    @contextmanager
    def holding(self, answer: Mapping[str, Any]) -> Iterator[None]:
        """Keeps the blocks that an answer names as they are until they are read; once for each answer."""
        if self._views is None:
            yield
            return
        with self._views.holding({segment for segment, *_, node in answer["blocks"] if not node}):
            yield

    def let_go(self) -> dict[str, int]:
        """See `Views.let_go`."""
        return {} if self._views is None else self._views.let_go(self._local.refresh)

    async def pieces(self, answer: Mapping[str, Any]) -> list[Piece]:
        """The blocks that an answer names; see `read`. UnitLost names the rows as well."""
        pieces = []
        for segment, offset, length, packed, indices, known, node in answer["blocks"]:
            place = Reference(segment=segment, offset=offset, length=length, checksum=known, node=node)
            positions = np.frombuffer(packed, "<i8")
            try:
                batch = await self.read(place, answer["units"])
            except (UnitLost, CellsDamaged) as error:
                uids = np.frombuffer(answer["uids"] if "uids" in answer else answer["written"], "<i8")
                raise type(error)(f"rows {uids[positions[:8]].tolist()} cannot be read: {error}") from error
            pieces.append(Piece(batch=batch, positions=positions, indices=np.frombuffer(indices, "<i8")))
        return pieces

    async def require_same(
        self, table: str, batch: pa.RecordBatch, uids: np.ndarray, answer: Mapping[str, Any]
    ) -> None:
        """Raises WriteConflict unless the cells that are there already hold the same bytes as `batch`."""
        index = {uid: index for index, uid in enumerate(uids.tolist())}
        written = np.frombuffer(answer["written"], "<i8")
        mine = np.array([index[uid] for uid in written.tolist()], np.int64)
        for piece in await self.pieces(answer):
            name = piece.differs(batch, mine)
            if name is not None:
                raise WriteConflict(
                    f"column {name!r} of table {table!r} is written already with other bytes, in one of "
                    f"the rows {written[piece.positions[:8]].tolist()}; a cell is written once"
                )

    async def read(self, place: Reference, units: Mapping[str, str]) -> pa.RecordBatch:
        """The batch of a block; `units` has the addresses of other nodes' units.

        Raises PayloadError where this node's segment is gone, UnitLost where another node's is, CellsDamaged
        where a block is not as it was written; then it is out of the queue.
        """
        try:
            return await self._read(place, units)
        except CellsDamaged as damaged:
            raise CellsDamaged(f"{damaged}; {await self._report(place)}") from damaged

    async def _read(self, place: Reference, units: Mapping[str, str]) -> pa.RecordBatch:
        if place.node == self._node:
            return self._local.read(place)
        if place.node not in units:
            raise UnitLost(
                f"no storage unit serves node {place.node!r} to others; start one there "
                "(for the controller's own node: one with node='')"
            )
        try:
            return await self._remote.read(place, units[place.node])
        except TimeoutError as error:
            what = f"was silent for {self._connection.timeout_s:g} s; {await self._outlook(place.node)}"
            cause = error
        except CellsDamaged:
            raise
        except PayloadError as error:
            what = f"has not got them: {error}; {await self._report(place)}"
            cause = error
        raise UnitLost(f"the storage unit of node {place.node!r} at {units[place.node]} {what}") from cause

    def forget_unlinked(self) -> None:
        """See `SegmentReader.forget_unlinked`."""
        self._local.forget_unlinked()

    def close(self) -> None:
        self._local.close()
        self._remote.close()

    async def _outlook(self, node: str) -> str:
        """What becomes of the rows of a unit that is silent."""
        state = await self._connection.request("unit_state", {"node": node})
        if not state["known"]:
            return "it was given up, and its rows are issued again or dropped"
        if not state["away"]:
            return "the controller hears of it: lease again"
        if state["durable"]:
            return "its rows are parked and come back with it"
        return (
            f"its rows are parked; after {state['give_up_s']:g} s without it they are issued again or dropped"
        )

    async def _report(self, place: Reference) -> str:
        """Has the controller take out a block that its own unit has not got, or not as it was written."""
        where = {"node": place.node, "segment": place.segment, "offset": place.offset}
        counts = await self._connection.request("broken", where)
        return f"{counts['reissued']} rows are issued again and {counts['dropped']} are dropped"
