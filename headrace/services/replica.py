"""The runtime of one replica that works on leased rows.

    lease ─► process ─► put ─► ack          an error hands the unwritten rows back, with its reason
      ▲ waits for rows and for room, never longer than a new version takes to arrive
    publication ─► pull ─► load ─► confirm   a lease is asked for at the version that is loaded

Invariant: every leased row is acknowledged after its columns are written, or handed back. Rows whose lease
failed before are processed one group at a time, so that a poisonous group costs its neighbours nothing.
"""

import asyncio
from typing import cast

import numpy as np

from headrace.services.base import Context, Service, Weighted
from headrace.services.clock import ActivityClock
from headrace.services.errors import ReplicaFailed, WeightsGone
from headrace.services.lifecycle import Lifecycle, State
from headrace.services.weights import WeightStore
from headrace.transferqueue import EndOfData, Lease, LeaseLost, Rows, WaitTimeout

GIVE_UP_AFTER = 8
"""Groups that fail one after another, with none done in between, before a replica gives up."""

REPORT_EVERY_S = 2.0


class Replica:
    """Drives `service` until it is drained, cancelled or has to give up."""

    def __init__(self, service: Service, context: Context, weights: WeightStore) -> None:
        self.lifecycle = Lifecycle(self._changed_state)
        self.clock = ActivityClock()
        self._service = service
        self._context = context
        self._weights = weights
        self._in_flight = 0
        self._failures_in_a_row = 0
        self._rows_done = 0
        self._turn = asyncio.Event()
        """Set when a waiting lease has to be asked for anew: other version, more room, or draining."""

    def _changed_state(self, old: State, new: State, reason: str) -> None:
        self._context.report.event("state", old=old, new=new, reason=reason)

    async def run(self) -> None:
        """Returns once drained or out of data; raises ReplicaFailed with the cause chained."""
        try:
            await self._run()
        except asyncio.CancelledError:
            self.lifecycle.to(State.STOPPED, "cancelled")
            raise
        except Exception as error:
            cause = first_error(error)
            self.lifecycle.to(State.FAILED, describe(cause))
            raise ReplicaFailed(f"{self._context.replica}: {describe(cause)}") from cause
        finally:
            await self._service.close()
        self.lifecycle.to(State.STOPPED)

    async def _run(self) -> None:
        self.lifecycle.to(State.LOADING)
        await self._service.setup(self._context)
        async with asyncio.TaskGroup() as background:
            helpers = [background.create_task(self._report_regularly())]
            if self._weighted is not None:
                await self._load_next(self._weighted)
                helpers.append(background.create_task(self._follow(self._weighted)))
            self.lifecycle.to(State.READY)
            await self._serve()
            for helper in helpers:
                helper.cancel()

    @property
    def _weighted(self) -> Weighted | None:
        return cast(Weighted, self._service) if hasattr(self._service, "load") else None

    def drain(self) -> None:
        """No new lease; `run` returns once those in flight are done."""
        if self.lifecycle.state is State.READY:
            self.lifecycle.to(State.DRAINING)
            self._turn.set()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as work:
            while self.lifecycle.state is State.READY:
                self._turn.clear()
                try:
                    lease = await self._lease()
                except EndOfData:
                    break
                for part in [] if lease is None else split(lease.rows):
                    self._in_flight += len(part)
                    work.create_task(self._work(cast(Lease, lease), part))

    async def _lease(self) -> Lease | None:
        """Leases what there is room for; None when the question has to be asked anew."""
        room = self._service.capacity - self._in_flight
        if room <= 0:
            await self._turn.wait()
            return None
        version = None if self._weighted is None else self._weighted.version
        asked = asyncio.ensure_future(
            self._context.client.lease(
                self._context.node, room, version=version, timeout_s=self._context.flow.no_progress_timeout_s
            )
        )
        turn = asyncio.ensure_future(self._turn.wait())
        try:
            await asyncio.wait({asked, turn}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            return None
        except WaitTimeout:
            return None
        finally:
            turn.cancel()
            if not asked.done():
                asked.cancel()
                await asyncio.wait({asked})

    async def _work(self, lease: Lease, rows: Rows) -> None:
        client, table = self._context.client, lease.table
        written: set[int] = set()
        try:
            with self.clock.during("busy"):
                async for output in self._service.process(rows):
                    await client.put(table, output.uids, output.columns, lease=lease)
                    await client.ack(lease, uids=output.uids)
                    written.update(output.uids.tolist())
                    self._rows_done += len(output.uids)
                    self._failures_in_a_row = 0
        except asyncio.CancelledError:
            await self._hand_back(lease, rows, written, "stopped", failed=False)
            raise
        except LeaseLost as lost:
            self._context.report.event("lease_lost", reason=str(lost))
        except Exception as error:
            await self._hand_back(lease, rows, written, describe(error), failed=True)
            self._context.report.event("process_failed", reason=describe(error), groups=_groups(rows))
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= GIVE_UP_AFTER:
                raise
        finally:
            self._in_flight -= len(rows)
            self._turn.set()

    async def _hand_back(
        self, lease: Lease, rows: Rows, written: set[int], reason: str, *, failed: bool
    ) -> None:
        left = np.array([uid for uid in rows.uids.tolist() if uid not in written], dtype=np.int64)
        if len(left):
            await self._context.client.release(lease, reason=reason, uids=left, failed=failed)

    async def _follow(self, service: Weighted) -> None:
        while True:
            await self._load_next(service)
            self._turn.set()

    async def _load_next(self, service: Weighted) -> None:
        """Waits for a version newer than the served one, pulls it and has it loaded."""
        context = self._context
        policy = context.policy_name
        try:
            publication = await context.client.published(
                policy, after=service.version, timeout_s=context.flow.no_progress_timeout_s
            )
        except WaitTimeout:
            if self.lifecycle.state is State.LOADING:
                raise
            return
        with self.clock.during("idle_wait_weights"):
            started = asyncio.get_running_loop().time()
            try:
                weights = await asyncio.to_thread(
                    self._weights.read, policy, publication.version, publication.checksum
                )
            except WeightsGone:
                return
            await service.load(publication.version, weights)
        context.report.metrics(
            {
                "sync/seconds": asyncio.get_running_loop().time() - started,
                "sync/bytes": float(sum(w.nbytes for w in weights.values())),
                "sync/version_confirmed": float(service.version),
            }
        )

    async def _report_regularly(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            self.report_activity()

    def report_activity(self) -> None:
        self._context.report.metrics(
            {
                **self.clock.fractions(),
                "rows_done": float(self._rows_done),
                "in_flight": float(self._in_flight),
            }
        )


def split(rows: Rows) -> list[Rows]:
    """Rows of a first attempt stay together; groups that failed before are taken one by one."""
    again = rows.attempts > 1
    if not again.any():
        return [rows]
    parts = list(rows.select(np.flatnonzero(again)).by_group())
    first = np.flatnonzero(~again)
    return [rows.select(first), *parts] if len(first) else parts


def first_error(error: Exception) -> Exception:
    """The first leaf of an exception group: what happened, without the wrapping of task groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """An error and its causes, the root last, in one line."""
    parts = [f"{type(error).__name__}: {error}"]
    while error.__cause__ is not None:
        error = error.__cause__
        parts.append(f"{type(error).__name__}: {error}")
    return " <- ".join(parts)


def _groups(rows: Rows) -> list[int]:
    return sorted(set(rows.groups.tolist()))
