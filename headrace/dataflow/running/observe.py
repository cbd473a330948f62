"""Carries telemetry from its table in the queue to the run directory.

Invariant: a record is written at most once. The queue lives no longer than the launcher, so rows are
acknowledged first; those whose lease was lost before come again.
"""

import time
from collections.abc import Mapping
from typing import Any

from headrace.dataflow.record.telemetry import METRICS, Record, Telemetry
from headrace.services.report import NO_STEP, TABLE
from headrace.transferqueue import Client, EndOfData, LeaseLost, Rows, WaitTimeout

ROWS_AT_ONCE = 4096
WAIT_S = 3600.0


async def observe(client: Client, telemetry: Telemetry) -> None:
    """Takes records until the table was ended and is empty."""
    task = TABLE.tasks[0].name
    while True:
        try:
            lease = await client.lease(task, ROWS_AT_ONCE, timeout_s=WAIT_S)
            taken = records(lease.rows)
            await client.ack(lease)
        except (WaitTimeout, LeaseLost):
            continue
        except EndOfData:
            return
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
