"""Keeps rows in files: leases them, has them on disk, acknowledges them.

    lease ─► transforms ─► texts ─► spool, on disk ─► ack          the file is made whole once it is full,
                                                                   at the end of the data and on close

Invariant: a row is acknowledged once it outlives a crash, and is in one file however often it comes. On close
what is ready for the sink is taken too, so that the rows of the last step are kept.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from headrace.services.base import Context
from headrace.services.clock import ActivityClock
from headrace.services.errors import ServiceError, TransformError, describe
from headrace.services.halving import on_held
from headrace.services.models import load_tokenizer
from headrace.services.options import SinkOptions
from headrace.services.replica import GIVE_UP_AFTER, split
from headrace.services.sink.parts import Parts
from headrace.services.sink.table import table_of
from headrace.services.texts import TEXTS
from headrace.services.transforms import Transforms
from headrace.transferqueue import EndOfData, Lease, QueueError, Rows, WaitTimeout

MAX_ROWS = 1024
"""Rows of one lease."""

T = TypeVar("T")


class Sink:
    """A `Loop`."""

    def __init__(self, *, load_tokenizer: Callable[[str], Any] = load_tokenizer) -> None:
        self._load_tokenizer = load_tokenizer
        self._writing = ThreadPoolExecutor(1, "sink")
        self._parts: Parts | None = None
        self._taking: asyncio.Task[None] | None = None
        self._failures_in_a_row = 0
        self._clock = ActivityClock()

    async def setup(self, context: Context) -> None:
        """Raises SinkError where the folder is another's, TransformError where a transform is not there."""
        self._context = context
        self._options: SinkOptions = context.options
        self._parts = await self._run(self._opened)

    def _opened(self) -> Parts:
        context, options = self._context, self._options
        self._transforms = Transforms(context.transforms)
        texts = any(name in TEXTS for name in options.columns)
        self._tokenizer = self._load_tokenizer(context.policy.model) if texts else None
        own = context.run_dir / "sinks" / context.node
        return Parts(
            own if options.directory is None else Path(options.directory),
            kind=options.format,
            rows_per_file=options.rows_per_file,
            owner="this run" if options.directory is None else f"node {context.node} of {context.run_dir}",
        )

    async def run(self) -> None:
        """Returns when the data has ended and all of it is in files; raises what kept rows from them."""
        timeout_s = self._context.flow.no_progress_timeout_s
        while await self._take(timeout_s=timeout_s) != "ended":
            continue
        await self._run(self._made().finish)

    async def _take(self, *, timeout_s: float) -> Literal["kept", "none", "ended"]:
        """Keeps the rows of one lease; "none" where none came in time, "ended" where none will come."""
        context, want = self._context, min(MAX_ROWS, self._made().room)
        try:
            lease = await context.client.lease(context.node, want, timeout_s=timeout_s)
        except WaitTimeout:
            return "none"
        except EndOfData:
            return "ended"
        self._taking = asyncio.ensure_future(self._keep(lease))
        await asyncio.shield(self._taking)
        return "kept"

    async def _keep(self, lease: Lease) -> None:
        client, node = self._context.client, self._context.node
        for rows in split(lease.rows):
            try:
                with self._clock.during("busy"):
                    await self._run(self._append, rows)
            except TransformError as error:
                await self._hand_back(lease, rows, error)
                continue
            await on_held(len(rows), lambda index, uids=rows.uids: client.ack(lease, uids[index]))
            self._failures_in_a_row = 0
        kept = self._made()
        counts = {f"sink/{node}/rows": float(kept.rows), f"sink/{node}/again": float(kept.again)}
        self._context.report.metrics({**counts, **self._clock.figures()})

    async def _hand_back(self, lease: Lease, rows: Rows, error: TransformError) -> None:
        """Rows that cannot be kept as they are; raises where that goes for all."""
        client, reason = self._context.client, describe(error)
        await on_held(len(rows), lambda index: client.release(lease, reason=reason, uids=rows.uids[index]))
        groups = sorted(set(rows.groups.tolist()))
        self._context.report.event("process_failed", reason=reason, groups=groups)
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= GIVE_UP_AFTER:
            raise error

    def _append(self, rows: Rows) -> None:
        shaped = self._transforms(rows)
        self._made().append(table_of(shaped, self._options.columns, self._tokenizer))

    def _made(self) -> Parts:
        if self._parts is None:
            raise RuntimeError("run() came before setup()")
        return self._parts

    async def close(self) -> None:
        """Keeps what is ready, and makes a whole file of what waits for one."""
        try:
            if self._parts is not None:
                await self._rest()
                await self._run(self._parts.finish)
        finally:
            await asyncio.to_thread(self._writing.shutdown)

    async def _rest(self) -> None:
        try:
            if self._taking is not None:
                await self._taking
            while await self._take(timeout_s=0.0) == "kept":
                continue
        except (QueueError, ServiceError) as error:
            self._context.report.event("sink_cut_short", node=self._context.node, reason=describe(error))

    def _run(self, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Files are written in one thread, so the loop stays free and calls never overlap."""
        return asyncio.get_running_loop().run_in_executor(self._writing, call, *arguments)
