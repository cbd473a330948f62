"""Carries telemetry from its table in the queue to the run directory.

Invariant: a record is written at most once: rows are acknowledged first, and those whose lease was lost
before come again, in the next launch where the queue is on disk.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from headrace.dataflow.record.telemetry import METRICS, Record, Telemetry
from headrace.services.report import NO_STEP, TABLE
from headrace.transferqueue import Client, Lease, LeaseLost, Rows, WaitTimeout

ROWS_AT_ONCE = 4096
WAIT_S = 3600.0


async def observe(client: Client, telemetry: Telemetry) -> None:
    """Takes records as they come, until it is cancelled; `drain` takes what is left then."""
    while True:
        await _take(client, telemetry, timeout_s=WAIT_S)


@asynccontextmanager
async def observed(client: Client, telemetry: Telemetry) -> AsyncIterator[asyncio.Task[None]]:
    """Records are taken in the block; the task ends when that does."""
    await client.create(TABLE)
    observing = asyncio.create_task(observe(client, telemetry))
    try:
        yield observing
    finally:
        observing.cancel()
        await asyncio.gather(observing, return_exceptions=True)


async def drain(client: Client, telemetry: Telemetry) -> None:
    """Takes every record that is there."""
    while await _take(client, telemetry, timeout_s=0.0):
        pass


async def _take(client: Client, telemetry: Telemetry, *, timeout_s: float) -> bool:
    """Whether there were records within the time."""
    try:
        lease = await client.lease(TABLE.tasks[0].name, ROWS_AT_ONCE, timeout_s=timeout_s)
    except WaitTimeout:
        return False
    keeping = asyncio.ensure_future(_keep(client, telemetry, lease))
    try:
        await asyncio.shield(keeping)
    except asyncio.CancelledError:
        await keeping
        raise
    return True


async def _keep(client: Client, telemetry: Telemetry, lease: Lease) -> None:
    taken = records(lease.rows)
    with suppress(LeaseLost):
        await client.ack(lease)
        for record in taken:
            telemetry.take(record)


def records(rows: Rows) -> list[Record]:
    columns = zip(rows["source"], rows["kind"], rows["at"], rows["step"], rows["body"], strict=True)
    return [
        Record(
            source=source,
            kind=kind,
            at=float(at),
            step=None if step == NO_STEP else int(step),
            body=body,
        )
        for source, kind, at, step, body in columns
    ]


class DirectReport:
    """The launcher's own `Report`: straight to the files, so that it outlives the queue."""

    def __init__(self, telemetry: Telemetry, source: str = "launch") -> None:
        self._telemetry = telemetry
        self._source = source

    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None:
        self._take(METRICS, step, dict(values))

    def event(self, kind: str, **detail: Any) -> None:
        self._take(kind, None, detail)

    def _take(self, kind: str, step: int | None, body: dict[str, Any]) -> None:
        self._telemetry.take(Record(source=self._source, kind=kind, at=time.time(), step=step, body=body))
