"""The queue as services use it: tables, leases and versions, over one connection.

Cells are written to and read from shared memory here; the controller sees only where they are. Leases are
renewed in the background while they are held.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import zmq

from headrace.transferqueue.arrays import arrow_schema, to_arrays
from headrace.transferqueue.errors import (
    CellsDamaged,
    ControllerUnreachable,
    PayloadError,
    QueueError,
    SchemaError,
)
from headrace.transferqueue.link.connection import Connection
from headrace.transferqueue.link.wire import pack, pack_ints, pack_uids, unpack_ints
from headrace.transferqueue.payload.gather import gather
from headrace.transferqueue.payload.writing import SegmentWriter
from headrace.transferqueue.placing import Placing
from headrace.transferqueue.reading import BlockReader
from headrace.transferqueue.rows import Lease, Rows, handing_back, leased
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.state.records import Publication
from headrace.transferqueue.stats import Shortage, Stats, Waited
from headrace.transferqueue.summary import summary

Uids = Sequence[int] | np.ndarray


class Client:
    """One holder's view of the queue.

    client = await Client.connect(address, holder="answers/0")
    lease = await client.lease("answers", 64, version=3, timeout_s=30)
    await client.put(lease.table, lease.rows.uids, {"response_ids": ids}, lease=lease)
    await client.ack(lease)
    await client.close()
    """

    def __init__(self, holder: str, node: str = "") -> None:
        self.holder = holder
        self.node = node
        self.on_damage: Callable[[str, str], object] = lambda table, reason: None
        """Hears of cells that were damaged: the table's name, and what became of them."""
        self._specs: dict[str, TableSpec] = {}
        self._held: dict[int, tuple[str, set[int]]] = {}
        self._connection: Connection
        self._writer: Placing
        self._reader: BlockReader

    @classmethod
    async def connect(
        cls,
        address: str,
        *,
        holder: str,
        timeout_s: float = 10.0,
        context: "zmq.Context[Any] | None" = None,
        node: str = "",
        keys: Path | None = None,
        fault: Callable[[str], object] | None = None,
    ) -> "Client":
        """`holder` names the leases; `timeout_s` is how long the controller may be silent, or away while it
        is started again: requests then go out once more, and none is done twice. `fault`: see
        `SegmentWriter`.

        Raises ControllerUnreachable when nobody answers. `context` matters for inproc addresses only;
        None: the process's own. `node`: this client's host, where a storage unit serves that name ("": the
        controller's host). `keys`: the folder with the run's client key, where the controller has keys.
        """
        client = cls(holder, node)
        client._connection = Connection(
            address,
            timeout_s=timeout_s,
            context=context,
            on_lost=client._on_lost,
            on_orphan=client._on_orphan,
            held=lambda: list(client._held),
            keys=keys,
        )
        hello = await client._connection.hello(holder, node)
        directory = Path(hello["directory"])
        identity = client._connection.identity.hex()
        durable = hello["durable"]
        options = {"checksums": durable, "sync": hello["sync"], "reuse": not durable and not node}
        writer = SegmentWriter(directory, identity, **options, fault=fault)
        client._writer = Placing(writer, client._connection, directory, waits=durable)
        client._reader = BlockReader(
            node, directory, client._connection, context=context, keys=keys, watched=not durable
        )
        client._connection.let_go = client._reader.let_go
        return client

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create(self, spec: TableSpec) -> None:
        """Makes a table. Again with an equal spec it changes nothing; other limits and another staleness are
        taken over, any other change is refused."""
        await self._connection.request("create", {"spec": spec.to_wire()})
        self._specs[spec.name] = spec

    async def put(
        self,
        table: str,
        uids: Uids,
        columns: Mapping[str, Any],
        *,
        lease: Lease | None = None,
        ack: bool = False,
        groups: Uids | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """Writes one cell per uid in each of `columns`, all or none.

        `groups` (one number per uid): the rows are new, every group whole; waits up to `timeout_s` for room
        and then raises WaitTimeout. `lease`: the rows are held by it, and `columns` are all that its task
        writes; with `ack` they leave it, done, in the same message. Neither: more cells of rows that are
        there. The same put again is accepted; other bytes in a written cell raise WriteConflict; cells that
        do not fit their column raise SchemaError.
        """
        if ack and lease is None:
            raise SchemaError("a put with ack=True says under which lease its rows are held: pass lease=")
        spec = await self._spec(table)
        rows = np.asarray(uids, np.int64)
        if not len(rows):
            return
        arrays = to_arrays(spec, columns, len(rows))
        fields = {
            "table": table,
            "uids": pack_ints(rows),
            "columns": list(arrays),
            "groups": None if groups is None else pack_ints(np.asarray(groups, np.int64)),
            "lease": None if lease is None else lease.id,
            "ack": ack,
            "timeout_s": timeout_s,
            **summary(spec, arrays, rows),
        }
        batch = pa.record_batch(list(arrays.values()), arrow_schema(spec, list(arrays)))
        answer = await self._write(batch, fields, known_same=False)
        if answer:
            await self._put_again(batch, fields, rows, answer)
        if lease is not None and ack:
            self._settle(lease.id, rows)

    async def lease(
        self,
        task: str,
        want: int,
        *,
        version: int | None = None,
        rank: int | None = None,
        timeout_s: float,
    ) -> Lease:
        """Up to `want` rows of the task's table, at least one; a whole group where the task needs it.

        Returns as soon as one unit is available, and never waits to fill `want`. `version`: for a begin
        task the one that the replica serves, for a train task the step (None: the one due). `rank`: whose
        share, where the task is balanced over data-parallel ranks. Raises WaitTimeout, naming what is
        missing and who owes it, or EndOfData. A view of a cell keeps the memory of those around it from being
        used again: copy what is to be kept for long. Damaged cells are taken out, and other rows leased.
        """
        fields = {"task": task, "want": want, "version": version, "rank": rank, "timeout_s": timeout_s}
        while True:
            body = await self._connection.request("lease", fields)
            self._held[body["lease"]] = (body["table"], set(unpack_ints(body["uids"])))
            self._connection.quicken(body["lease_s"] / 3)
            try:
                with self._reader.holding(body):
                    rows = await self._rows(await self._spec(body["table"]), task, body)
            except BaseException as error:
                self._hand_back(body)
                if not isinstance(error, CellsDamaged):
                    raise
                self.on_damage(body["table"], str(error))
                continue
            where = {"id": body["lease"], "table": body["table"]}
            return Lease(**where, task=task, rows=rows, again=body.get("again", False))

    async def ack(self, lease: Lease, uids: Uids | None = None) -> None:
        """The task is done with the rows (None: all that the lease still holds); LeaseLost if it ended."""
        fields = {"table": lease.table, "lease": lease.id, "uids": pack_uids(uids)}
        await self._connection.request("ack", fields)
        self._settle(lease.id, uids)

    async def release(
        self,
        lease: Lease,
        *,
        reason: str,
        uids: Uids | None = None,
        carry: Mapping[int, Mapping[str, Any] | None] | None = None,
        failed: bool = True,
    ) -> None:
        """Hands rows back (None: all that the lease still holds) for another lease.

        `carry`: by uid, what that lease shall receive (None: nothing); the others keep theirs. With
        `failed` it counts as an attempt, and the last one puts the row in quarantine.
        """
        packed = [[int(uid), None if value is None else pack(value)] for uid, value in (carry or {}).items()]
        fields = {"table": lease.table, "lease": lease.id, "uids": pack_uids(uids)}
        await self._connection.request(
            "release", {**fields, "reason": reason, "failed": failed, "carry": packed}
        )
        self._settle(lease.id, uids)

    async def commit(self, task: str, step: int, uids: Uids) -> None:
        """The rows of a trainer's step, whole units that this client leases; frees their payload.

        The same call again changes nothing; another set for a committed step raises StepRefused.
        """
        await self._connection.request("commit", {"task": task, "step": step, "uids": pack_uids(uids)})
        for lease in list(self._held):
            self._settle(lease, uids)

    async def finish(self, task: str) -> None:
        """The task is over while others go on with its table: rows leave without it, those that come later
        too, and its leases raise EndOfData. Where it is the train task no gate holds rollouts back either.

        The same call again changes nothing; `rewind` makes a train task live again, `reopen` any other.
        """
        ended = await self._connection.request("finish", {"task": task})
        self._on_lost(unpack_ints(ended["leases"]))

    async def reopen(self, task: str) -> None:
        """A work or begin task that is over goes on, with the rows that it passed over and are still there;
        those of them that lack a column which a join owed them are dropped.

        Where the task is not over nothing changes. Raises Refused for a train task, which is rewound.
        """
        await self._connection.request("reopen", {"task": task})

    async def drop(self, table: str, uids: Uids, reason: str) -> None:
        """Rows leave the table and the staleness counts, whoever holds them; `reason` is counted."""
        await self._connection.request("drop", {"table": table, "uids": pack_uids(uids), "reason": reason})
        for lease in [lease for lease, (name, _) in self._held.items() if name == table]:
            self._settle(lease, uids)

    async def rewind(self, task: str, step: int) -> None:
        """The trainer is back at a checkpoint of `step`: it will be handed the rows of the steps from there
        on again, the same batches in the same order, and the task's leases end.

        StepRefused where rows of those steps are gone, Refused where the table is not `rewindable`.
        """
        await self._connection.request("rewind", {"task": task, "step": step})

    async def checkpointed(self, task: str, step: int) -> None:
        """A checkpoint that holds the steps below `step` is safe: their rows may go. To be called once it
        is on disk, with the oldest checkpoint that one would still come back to."""
        await self._connection.request("checkpointed", {"task": task, "step": step})

    async def publish(self, policy: str, version: int, checksum: str) -> int | None:
        """A new version of a policy can be pulled; versions only grow, and a repeat changes nothing.

        After `rewind` to step c the versions from c on are published again. One whose checksum is another
        than before begins a new timeline there: rows with a part of the lost versions are dropped, and
        their number is returned; None: the timeline goes on.
        """
        fields = {"policy": policy, "version": version, "checksum": checksum}
        return (await self._connection.request("publish", fields))["lost"]

    async def published(self, policy: str, *, after: int, seen: int = 0, timeout_s: float) -> Publication:
        """What was published last, once its version is above `after` (-1: any), or whatever it is where a new
        timeline began that this client was not told of; WaitTimeout if it does not come.

        `seen`: serial of an announcement that is not wanted again, as its weights were gone (0: none).
        """
        fields = {"policy": policy, "after": after, "seen": seen, "timeout_s": timeout_s}
        return Publication(**await self._connection.request("published", fields))

    async def evict(self, holder: str, reason: str) -> int:
        """Ends all leases of a dead holder at once and shuts its clients out; returns rows handed back.

        Call it before a replacement of the same name connects.
        """
        return (await self._connection.request("evict", {"holder": holder, "reason": reason}))["rows"]

    async def set_staleness(self, table: str, staleness: float) -> None:
        """Moves the knob for units begun from now on; deadlines already given stand."""
        await self._connection.request("set_staleness", {"table": table, "staleness": float(staleness)})

    async def pause(self, tables: Sequence[str], reason: str = "") -> None:
        """Nothing of these tables is leased, and no wait's time runs, until it is called with none; what
        is held is gone on with. `reason` follows "is paused" where it is said what a wait is for."""
        await self._connection.request("pause", {"tables": list(tables), "reason": reason})

    async def end(self, table: str) -> None:
        """The producer will put no further rows; leases that can never be filled raise EndOfData."""
        await self._connection.request("end", {"table": table})

    async def stats(self) -> Stats:
        return Stats.from_wire(await self._connection.request("stats", {}))

    async def shortages(self, known: int, *, timeout_s: float) -> tuple[int, list[Shortage]]:
        """Who has no room on disk, once it is otherwise than at the serial `known` (-1: as it is now); with
        its serial. WaitTimeout where it stays so."""
        answer = await self._connection.request("shortages", {"known": known, "timeout_s": timeout_s})
        return answer["serial"], [Shortage(**each) for each in answer["short"]]

    async def waits(self) -> list[Waited]:
        """What the clients of the queue wait for."""
        return [Waited(**each) for each in (await self._connection.request("waits", {}))["waits"]]

    async def close(self) -> None:
        """Hands back what is held, without counting an attempt, and disconnects; it raises nothing."""
        if self._connection.closed:
            return
        try:
            for lease, (table, _) in self._held.items():
                self._connection.post("release", handing_back(table, lease, f"{self.holder} closed"))
            await self._connection.request("goodbye", {})
        except QueueError:
            pass
        finally:
            self._held.clear()
            self._connection.close(ControllerUnreachable("the client is closed; connect another"))
            self._writer.close()
            self._reader.close()

    async def _spec(self, table: str) -> TableSpec:
        if table not in self._specs:
            data = await self._connection.request("describe", {"table": table})
            self._specs[table] = TableSpec.from_wire(data)
        return self._specs[table]

    async def _write(
        self, batch: pa.RecordBatch, fields: Mapping[str, Any], *, known_same: bool
    ) -> dict[str, Any]:
        place = await self._writer.place(batch)
        where = {name: getattr(place, name) for name in ("segment", "offset", "length", "checksum")}
        try:
            answer = await self._connection.request("put", {**fields, **where, "known_same": known_same})
        except ControllerUnreachable:
            raise
        except QueueError:
            self._writer.undo(place)
            raise
        if answer:
            self._writer.undo(place)
        return answer

    async def _put_again(
        self,
        batch: pa.RecordBatch,
        fields: Mapping[str, Any],
        uids: np.ndarray,
        answer: Mapping[str, Any],
    ) -> None:
        """Some of the cells are there already and must be these. Where rows have left while they were looked
        at, their files with them, the controller is asked once more what became of them."""
        try:
            with self._reader.holding(answer):
                await self._reader.require_same(fields["table"], batch, uids, answer)
        except PayloadError:
            if await self._write(batch, fields, known_same=False):
                raise
        else:
            await self._write(batch, fields, known_same=True)

    async def _rows(self, spec: TableSpec, task: str, body: Mapping[str, Any]) -> Rows:
        self._reader.forget_unlinked()
        reads = next(declared.reads for declared in spec.tasks if declared.name == task)
        return leased(body, gather(reads, await self._reader.pieces(body), len(body["uids"]) // 8), spec)

    def _settle(self, lease: int, uids: Uids | None) -> None:
        if lease in self._held:
            rest = self._held[lease][1]
            if uids is not None:
                rest.difference_update(np.asarray(uids, np.int64).tolist())
            if uids is None or not rest:
                del self._held[lease]

    def _on_lost(self, leases: list[int]) -> None:
        for lease in leases:
            self._held.pop(lease, None)

    def _on_orphan(self, body: Any) -> None:
        """An answer whose asker is gone: nobody looks at what it names, and a lease goes back at once."""
        if isinstance(body, dict) and "blocks" in body:
            with self._reader.holding(body):
                if "lease" in body:
                    self._hand_back(body)

    def _hand_back(self, body: Mapping[str, Any]) -> None:
        self._held.pop(body["lease"], None)
        self._connection.post("release", handing_back(body["table"], body["lease"], "it was not read"))
