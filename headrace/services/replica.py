"""The runtime of one replica that works on leased rows.

    lease ─► transforms ─► process ─► put ─► ack    an error hands the unwritten rows back, with its reason
      ▲ waits for rows and for room, never longer than a new version takes to arrive
    publication ─► pull ─► verify ─► load ─► confirm   a lease is asked for at the version that is loaded

Invariant: every leased row is acknowledged after its columns are written, dropped, or handed back. Rows whose
lease failed before are processed one group at a time, so that a poisonous group costs its neighbours nothing.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import numpy as np

from headrace.services.base import Context, Long, Output, Producer, Proving, Resumable, Service, Weighted
from headrace.services.clock import ActivityClock
from headrace.services.errors import ReplicaFailed, ServiceError, WeightsGone, describe
from headrace.services.halving import on_held
from headrace.services.lifecycle import Lifecycle, State
from headrace.services.pulse import LOADING
from headrace.services.transforms import Transforms
from headrace.services.weights import WeightStore
from headrace.transferqueue import (
    EndOfData,
    Lease,
    LeaseLost,
    Publication,
    Rows,
    RowsGone,
    TimelineMoved,
    WaitTimeout,
)

if TYPE_CHECKING:
    import torch

CAPACITY = 256
"""Rows in flight at once in a service that does not say how many."""
GIVE_UP_AFTER = 8
"""Groups that fail one after another, with none done in between, before a replica gives up."""

REPORT_EVERY_S = 2.0


class Replica:
    """Drives `service` until it is drained, cancelled or has to give up."""

    def __init__(self, service: Service, context: Context, weights: WeightStore) -> None:
        self.lifecycle = Lifecycle(context.changed_state)
        self.clock = ActivityClock()
        self._service = service
        self._context = context
        self._weights = weights
        self._in_flight = 0
        self._unbegun: dict[int, tuple[Lease, Rows]] = {}
        """Leased, by their object's id: work that is cancelled before its first line hands nothing back."""
        self._failures_in_a_row = 0
        self._rows_done = 0
        self._weights_gone = 0
        self._lag_s = 0.0
        """By how much the event loop was late when it was last asked."""
        self._pulse = context.pulse
        self._turn = asyncio.Event()
        """Set when a waiting lease has to be asked for anew: other version, more room, or draining."""

    async def run(self) -> None:
        """Returns once drained or out of data; raises what made it give up, in a group where tasks did."""
        try:
            with self.lifecycle.failing():
                await self._run()
        finally:
            self.report_activity()
            await self._service.close()
        self.lifecycle.to(State.STOPPED)

    async def _run(self) -> None:
        self.lifecycle.to(State.LOADING)
        self._transforms = await asyncio.to_thread(Transforms, self._context.transforms)
        with self._pulse.working(LOADING):
            await self._service.setup(self._context)
        if hasattr(self._service, "progress"):
            self._pulse.counts = cast(Long, self._service).progress
        async with asyncio.TaskGroup() as background:
            helpers = [background.create_task(self._report_regularly())]
            if self._weighted is not None:
                await self._load_next(self._weighted)
            await self._prove()
            if self._weighted is not None:
                helpers.append(background.create_task(self._follow(self._weighted)))
            self.lifecycle.to(State.READY)
            self._pulse.ready = True
            try:
                await self._serve()
            finally:
                for lease, rows in self._unbegun.values():
                    await self._hand_back(lease, set(rows.uids.tolist()), "stopped", failed=False)
            for helper in helpers:
                helper.cancel()

    async def _prove(self) -> None:
        """Has a service that can make a first output before it is ready; raises ReplicaFailed, within the
        time that any of its work may take, where none comes."""
        if not hasattr(self._service, "prove"):
            return
        longest_s = self._context.options.stall_limit_s(self._context.flow.no_progress_timeout_s)
        what = (
            "a first output"
            if self._weighted is None
            else f"a first output at version {self._weighted.version}"
        )
        limit = asyncio.timeout(longest_s)
        try:
            with self._pulse.working(f"make {what}"):
                async with limit:
                    await cast(Proving, self._service).prove()
        except Exception as error:
            why = f"none came within {longest_s:g} s" if limit.expired() else "that failed"
            raise ReplicaFailed(f"it is not ready: it was to make {what}, and {why}") from error

    @property
    def _weighted(self) -> Weighted | None:
        follows = getattr(self._service, "follows", hasattr(self._service, "load"))
        return cast(Weighted, self._service) if follows else None

    def drain(self) -> None:
        """No new lease; `run` returns once those in flight are done."""
        if self.lifecycle.state is State.READY:
            self.lifecycle.to(State.DRAINING)
            self._turn.set()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as work:
            ended = False
            while self.lifecycle.state is State.READY and not ended:
                self._turn.clear()
                try:
                    lease = await self._lease()
                except EndOfData:
                    ended = True
                    continue
                for part in [] if lease is None else split(lease.rows):
                    self._in_flight += len(part)
                    self._unbegun[id(part)] = cast(Lease, lease), part
                    work.create_task(self._work(cast(Lease, lease), part))
        if ended and hasattr(self._service, "end"):
            await cast(Producer, self._service).end()

    async def _lease(self) -> Lease | None:
        """Leases what there is room for; None when the question has to be asked anew."""
        room = getattr(self._service, "capacity", CAPACITY) - self._in_flight
        if room <= 0:
            await self._turn.wait()
            return None
        context, version = self._context, None if self._weighted is None else self._weighted.version
        asked = asyncio.ensure_future(
            context.client.lease(
                context.node, room, version=version, timeout_s=context.flow.no_progress_timeout_s
            )
        )
        turn = asyncio.ensure_future(self._turn.wait())
        try:
            await asyncio.wait({asked, turn}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if asked.done() and asked.exception() is None:
                lease = asked.result()
                await self._hand_back(lease, set(lease.rows.uids.tolist()), "stopped", failed=False)
            raise
        finally:
            turn.cancel()
            if not asked.done():
                asked.cancel()
                await asyncio.wait({asked})
        try:
            return None if asked.cancelled() else asked.result()
        except WaitTimeout:
            return None
        except TimelineMoved:
            await self._turn.wait()
            return None

    async def _work(self, lease: Lease, rows: Rows) -> None:
        del self._unbegun[id(rows)]
        left, leased = set(rows.uids.tolist()), self._context.trace.now()
        try:
            with self.clock.during("busy"), self._pulse.working(f"process {len(rows)} rows"):
                shaped = await asyncio.to_thread(self._transforms, rows) if self._transforms else rows
                async with aclosing(self._service.process(shaped)) as outputs:
                    began = time.monotonic()
                    async for output in outputs:
                        await self._context.faults.after_work(time.monotonic() - began)
                        await self._write(lease, output, leased)
                        began = time.monotonic()
                        left.difference_update(output.uids.tolist())
            if left:
                raise ServiceError(
                    f"process() ended without an output for rows {sorted(left)[:8]}; it must yield every "
                    "leased row or raise"
                )
        except asyncio.CancelledError:
            await self._hand_back(lease, left, "stopped", failed=False)
            raise
        except (LeaseLost, RowsGone) as lost:
            self._context.report.event("lease_lost", reason=str(lost))
        except Exception as error:
            await self._failed(lease, rows, left, error)
        finally:
            self._in_flight -= len(rows)
            self._turn.set()

    async def _write(self, lease: Lease, output: Output, leased: float) -> None:
        """Rows that another node dropped meanwhile are passed over. `leased`: when, Unix seconds."""
        client, trace = self._context.client, self._context.trace
        made = trace.now()

        async def settle(index: np.ndarray) -> None:
            part = output.at(index)
            if part.dropped:
                await client.drop(lease.table, part.uids, part.dropped)
                return
            if part.columns:
                await client.put(lease.table, part.uids, part.columns, lease=lease)
            await client.ack(lease, uids=part.uids)

        with self._pulse.waiting():
            await on_held(len(output.uids), settle)
        self._pulse.beat()
        trace.rows(lease.table, output.uids, leased=leased, made=made)
        self._rows_done += len(output.uids)
        self._failures_in_a_row = 0

    async def _failed(self, lease: Lease, rows: Rows, left: set[int], error: Exception) -> None:
        """Hands the rows back and goes on, unless nothing works any more."""
        reason = describe(error)
        await self._hand_back(lease, left, reason, failed=True)
        groups = sorted(set(rows.groups.tolist()))
        self._context.report.event("process_failed", reason=reason, groups=groups)
        self._failures_in_a_row += 1
        if isinstance(error, ReplicaFailed) or self._failures_in_a_row >= GIVE_UP_AFTER:
            raise error

    async def _hand_back(self, lease: Lease, left: set[int], reason: str, *, failed: bool) -> None:
        """Releases rows, with what has been begun of them; those of a lease that has ended are back already,
        or were done as the stop came."""
        if not left:
            return
        uids = np.array(sorted(left), dtype=np.int64)
        resumable = cast(Resumable, self._service) if hasattr(self._service, "begun") else None
        begun = {} if resumable is None else resumable.begun(left)

        async def release(index: np.ndarray) -> None:
            part = uids[index]
            carry = {uid: begun[uid] for uid in part.tolist() if uid in begun}
            await self._context.client.release(lease, reason=reason, uids=part, failed=failed, carry=carry)

        try:
            await on_held(len(uids), release)
        except LeaseLost as lost:
            if failed:
                self._context.report.event("lease_lost", reason=str(lost))

    async def _follow(self, service: Weighted) -> None:
        while True:
            await self._load_next(service)
            self._turn.set()

    async def _load_next(self, service: Weighted) -> None:
        """Waits for a version newer than the served one, or for another timeline's; pulls it and loads it.

        An announcement whose weights are gone is passed over for the next. Raises WaitTimeout while nothing
        is served.
        """
        context, seen = self._context, 0
        while True:
            try:
                publication = await context.client.published(
                    context.policy_name,
                    after=service.version,
                    seen=seen,
                    timeout_s=context.flow.no_progress_timeout_s,
                )
            except WaitTimeout:
                if self.lifecycle.state is State.LOADING:
                    raise
                return
            seen = publication.serial
            try:
                await self._load(service, publication)
            except WeightsGone:
                self._weights_gone += 1
                continue
            return

    async def _load(self, service: Weighted, publication: Publication) -> None:
        now = asyncio.get_running_loop().time
        policy, version = publication.policy, publication.version
        loading = self._pulse.working(f"load version {version} of {policy}")
        with self.clock.during("idle_wait_weights"), loading:
            started = now()
            moved_bytes = await self._context.bring(policy, version, publication.checksum)
            weights = await asyncio.to_thread(self._weights.take, policy, version, publication.checksum)
            size = await asyncio.to_thread(_verified_size, weights)
            await service.load(version, weights)
        self._context.report.metrics(
            {
                "sync/seconds": now() - started,
                "sync/failures": float(self._weights_gone),
                "sync/bytes": float(size),
                "sync/moved_bytes": float(moved_bytes),
                "sync/version_confirmed": float(service.version),
            }
        )

    async def _report_regularly(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            due_s = now() + REPORT_EVERY_S
            await asyncio.sleep(REPORT_EVERY_S)
            self._lag_s = now() - due_s
            self.report_activity()

    def report_activity(self) -> None:
        self._context.report.metrics(
            {
                **self.clock.figures(),
                "rows_done": float(self._rows_done),
                "in_flight": float(self._in_flight),
                "loop_lag_s": self._lag_s,
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


def _verified_size(weights: Mapping[str, "torch.Tensor"]) -> int:
    """Bytes of a version, which is verified here, while the service goes on with the one before."""
    return sum(tensor.nbytes for tensor in weights.values())
