"""Carries telemetry from its table in the queue to the run directory."""

from headrace.dataflow.telemetry import Record, Telemetry
from headrace.services.report import NO_STEP, TABLE
from headrace.transferqueue import Client, EndOfData, Rows, WaitTimeout

ROWS_AT_ONCE = 4096
WAIT_S = 3600.0


async def observe(client: Client, telemetry: Telemetry) -> None:
    """Takes records until the table was ended and is empty. A row is acknowledged once it is in its file."""
    task = TABLE.tasks[0].name
    while True:
        try:
            lease = await client.lease(task, ROWS_AT_ONCE, timeout_s=WAIT_S)
        except WaitTimeout:
            continue
        except EndOfData:
            return
        for record in records(lease.rows):
            telemetry.take(record)
        await client.ack(lease)


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
