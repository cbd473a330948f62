"""One process of a run under pressure: `pressed_run control|unit|produce|consume ADDRESS DIR NODE`.

The producer offers rows as fast as it can, twice as many at once as the consumer takes; the consumer tells
of every thousandth row by a line on stdout.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from headrace.transferqueue import Client, Column, Controller, EndOfData, StorageUnit, TableSpec, Task

ROWS, ROW_BYTES, MAX_BYTES = 30_000, 16 << 10, 8 << 20
OFFERED, TAKEN, TOLD = 50, 25, 1000


def spec() -> TableSpec:
    columns = (Column(name="x", dtype="uint8", shape=(ROW_BYTES,)),)
    return TableSpec(name="t", columns=columns, tasks=(Task(name="eat", reads=("x",)),), max_bytes=MAX_BYTES)


async def control(address: str, directory: Path, node: str) -> None:
    async with Controller(directory) as controller:
        print(controller.address, flush=True)
        await controller.closed()


async def unit(address: str, directory: Path, node: str) -> None:
    async with StorageUnit(directory, address, node=node, address="tcp://127.0.0.2:*") as serving:
        print("serving", flush=True)
        await serving.closed()


async def produce(address: str, directory: Path, node: str) -> None:
    async with await Client.connect(address, holder="produce", node=node) as client:
        await client.create(spec())
        print("producing", flush=True)
        for first in range(0, ROWS, OFFERED):
            uids = np.arange(first, first + OFFERED)
            cells = np.repeat(uids.astype(np.uint8), ROW_BYTES).reshape(OFFERED, ROW_BYTES)
            await client.put("t", uids, {"x": cells}, groups=uids, timeout_s=120)
        await client.end("t")
        await asyncio.to_thread(sys.stdin.readline)


async def consume(address: str, directory: Path, node: str) -> None:
    async with await Client.connect(address, holder="consume") as client:
        taken = 0
        while True:
            try:
                lease = await client.lease("eat", TAKEN, timeout_s=120)
            except EndOfData:
                return
            sums = lease.rows["x"].sum(axis=1, dtype=np.int64)
            assert sums.tolist() == [uid % 256 * ROW_BYTES for uid in lease.rows.uids.tolist()]
            await client.ack(lease)
            taken += len(lease)
            if taken % TOLD == 0:
                print(taken, flush=True)


ROLES: dict[str, Callable[[str, Path, str], Awaitable[None]]] = {
    "control": control,
    "unit": unit,
    "produce": produce,
    "consume": consume,
}


async def main(role: str, address: str, directory: str, node: str) -> None:
    await ROLES[role](address, Path(directory), node)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
