"""A producer that is faster than its consumer waits; nothing grows."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from headrace.transferqueue import Column, Controller, TableSpec, Task, WaitTimeout

Make = Callable[..., Any]
KIB = 1024


def table(**limits: Any) -> TableSpec:
    columns = (Column(name="x", dtype="uint8", shape=(64 * KIB,)),)
    return TableSpec(name="t", columns=columns, tasks=(Task(name="eat", reads=("x",)),), **limits)


async def test_a_table_full_of_bytes_holds_its_producer(connect: Make) -> None:
    """Blocks of 65,536 bytes and a header fit three times into 256 KiB, not four."""
    client = await connect("p")
    await client.create(table(max_bytes=256 * KIB))
    cells = np.zeros((1, 64 * KIB), np.uint8)
    for uid in range(3):
        await client.put("t", [uid], {"x": cells}, groups=[uid])
    with pytest.raises(WaitTimeout, match=r"it holds 3 of 65536 rows and .* of 262144 bytes"):
        await client.put("t", [3], {"x": cells}, groups=[3], timeout_s=0.01)
    lease = await client.lease("eat", 1, timeout_s=5)
    await client.ack(lease)
    await client.put("t", [3], {"x": cells}, groups=[3], timeout_s=5)
    assert (await client.stats()).tables["t"].rows == 3


@pytest.mark.slow
async def test_a_producer_twice_as_fast_as_its_consumer_keeps_memory_bounded(
    controller: Controller, connect: Make, tmp_path: Path
) -> None:
    """Twice the rows are offered for each that is taken; 20,000 rows of 64 KiB pass through 8 MiB."""
    producer, consumer = await connect("p"), await connect("c")
    await producer.create(table(max_bytes=8 << 20))
    cells = np.zeros((20, 64 * KIB), np.uint8)

    async def produce() -> None:
        for first in range(0, 20_000, 20):
            uids = np.arange(first, first + 20)
            await producer.put("t", uids, {"x": cells}, groups=uids, timeout_s=60)

    async def consume(rows: int) -> None:
        taken = 0
        while taken < rows:
            lease = await consumer.lease("eat", 10, timeout_s=60)
            taken += len(lease)
            await consumer.ack(lease)

    producing = asyncio.create_task(produce())
    await consume(2000)
    resident, segments = _resident(), _stored(tmp_path)
    await consume(18_000)
    await producing
    assert _stored(tmp_path) <= max(segments, 3 * (32 << 20))
    assert _resident() - resident < 64 << 20
    table_ = (await producer.stats()).tables["t"]
    assert (table_.created, table_.finished, table_.bytes, table_.lost) == (20_000, 20_000, 0, 0)


def _resident() -> int:
    return psutil.Process(os.getpid()).memory_info().rss


def _stored(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*.arrows"))
