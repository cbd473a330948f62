"""Telemetry of a replica: gathered here, carried by a table of the queue, kept by whoever launched the run.

Fire and forget: a full or closed queue costs records, which are counted and said, and never disturbs the
service.
"""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self
from uuid import uuid4

import numpy as np

from headrace.transferqueue import Client, Column, QueueError, TableSpec, Task

TABLE = TableSpec(
    name="telemetry",
    columns=(
        Column(name="source", dtype="string"),
        Column(name="kind", dtype="string"),
        Column(name="at", dtype="float64"),
        Column(name="step", dtype="int64"),
        Column(name="body", dtype="json"),
    ),
    tasks=(Task(name="observe", reads=("source", "kind", "at", "step", "body")),),
)
"""One row a record: `kind` is "metrics" or the event's name, `step` is -1 where there is none."""

NO_STEP = -1
PUT_TIMEOUT_S = 5.0

GATHER_S = 0.2
"""Seconds over which metrics are gathered into one put; an event takes what was gathered with it at once."""


class QueueReport:
    """Buffers records and writes them in one put, one put at a time."""

    def __init__(self, client: Client, source: str) -> None:
        self.lost = 0
        """Records that could not be written."""
        self._client = client
        self._source = source
        self._pending: list[tuple[str, float, int, Any]] = []
        self._next_uid = uuid4().int >> 66
        self._flushing: asyncio.Task[None] | None = None
        self._urgent = asyncio.Event()
        self._closing = False

    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None:
        self._add("metrics", step, dict(values))

    def event(self, kind: str, **detail: Any) -> None:
        self._add(kind, None, detail)
        self._urgent.set()

    def _add(self, kind: str, step: int | None, body: Any) -> None:
        json.dumps(body)
        self._pending.append((kind, time.time(), NO_STEP if step is None else step, body))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        while self._pending:
            await self._gather()
            records, self._pending = self._pending, []
            uids = np.arange(self._next_uid, self._next_uid + len(records), dtype=np.int64)
            self._next_uid += len(records)
            kinds, ats, steps, bodies = zip(*records, strict=True)
            columns = {
                "source": [self._source] * len(records),
                "kind": list(kinds),
                "at": np.array(ats),
                "step": np.array(steps, dtype=np.int64),
                "body": list(bodies),
            }
            try:
                await self._client.put(TABLE.name, uids, columns, groups=uids, timeout_s=PUT_TIMEOUT_S)
            except QueueError:
                self.lost += len(records)

    async def _gather(self) -> None:
        """Returns after GATHER_S, or at once when an event was said or the report is being closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_S):
                await self._urgent.wait()
        if not self._closing:
            self._urgent.clear()

    async def close(self) -> None:
        """Writes what is left; says in the replica's log how many records were lost."""
        self._closing = True
        self._urgent.set()
        if self._flushing is not None:
            await self._flushing
        if self.lost:
            log = logging.getLogger(f"headrace.{self._source}")
            log.warning("%d records of telemetry were lost: the queue was full or gone", self.lost)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
