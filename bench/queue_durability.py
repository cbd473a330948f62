"""What durability costs: put, lease, read and ack of 64 KiB rows, in memory and on disk by `fsync`.

The last line is one JSON object; `ratios` are medians against memory, and against the first write of the same
bytes to a file of that disk, which is the limit; all are interleaved over `--rounds`.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from headrace.transferqueue import Client, Column, Controller, TableSpec, Task
from headrace.transferqueue.controller import Durability
from headrace.transferqueue.disk.journal import Fsync

ROW_BYTES = 64 << 10
PLAIN = "first write of a file"
MODES: dict[str, tuple[Durability, Fsync]] = {
    "memory": ("memory", "never"),
    "disk, fsync never": ("disk", "never"),
    "disk, fsync batch": ("disk", "batch"),
    "disk, fsync always": ("disk", "always"),
}


def serve(directory: Path, durability: Durability, fsync: Fsync, ready: Connection) -> None:
    async def run() -> None:
        async with Controller(directory, durability=durability, fsync=fsync) as controller:
            ready.send(controller.address)
            await controller.closed()

    asyncio.run(run())


async def flow(address: str, batches: int, rows: int) -> float:
    """MB/s through the queue, each byte read once into fresh memory."""
    spec = TableSpec(
        name="t",
        columns=(Column(name="x", dtype="list<float32>"),),
        tasks=(Task(name="work", reads=("x",)),),
    )
    cells = np.random.default_rng(0).random((rows, ROW_BYTES // 4), np.float32)
    async with (
        await Client.connect(address, holder="producer") as producer,
        await Client.connect(address, holder="consumer") as consumer,
    ):
        await producer.create(spec)
        started = time.perf_counter()
        for batch in range(batches):
            uids = np.arange(batch * rows, (batch + 1) * rows)
            await producer.put("t", uids, {"x": cells}, groups=uids)
            lease = await consumer.lease("work", rows, timeout_s=30)
            for cell in lease.rows["x"]:
                cell.copy()
            await consumer.ack(lease)
        return batches * rows * ROW_BYTES / (time.perf_counter() - started) / 1e6


def first_write(directory: Path, batches: int, rows: int) -> float:
    """MB/s of the disk's file system alone: the same bytes, put once into a fresh file."""
    cells = np.random.default_rng(0).bytes(rows * ROW_BYTES)
    with (directory / "plain").open("wb", buffering=0) as file:
        started = time.perf_counter()
        for _ in range(batches):
            file.write(cells)
        return batches * rows * ROW_BYTES / (time.perf_counter() - started) / 1e6


def measure(mode: str, directory: Path, batches: int, rows: int) -> float:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(directory, *MODES[mode], theirs))
    server.start()
    try:
        return asyncio.run(flow(ours.recv(), batches, rows))
    finally:
        server.kill()
        server.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rows", type=int, default=16, help="rows of 64 KiB in a batch")
    parser.add_argument("--disk", type=Path, default=None, help="a directory on the disk to measure")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {mode: [] for mode in (*MODES, PLAIN)}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.disk) as directory:
            rates[PLAIN].append(first_write(Path(directory), options.batches, options.rows))
        for mode, (durability, _) in MODES.items():
            parent = Path("/dev/shm") if durability == "memory" else options.disk
            with tempfile.TemporaryDirectory(dir=parent) as directory:
                rates[mode].append(measure(mode, Path(directory) / "queue", options.batches, options.rows))
    medians = {mode: statistics.median(each) for mode, each in rates.items()}
    for mode, each in rates.items():
        print(f"{mode}: {medians[mode]:.0f} MB/s  ({', '.join(f'{rate:.0f}' for rate in each)})")
    ratios = {mode: round(rate / medians["memory"], 2) for mode, rate in medians.items()}
    ratios |= {f"{mode} to {PLAIN}": round(medians[mode] / medians[PLAIN], 2) for mode in MODES}
    print(json.dumps({"mb_per_s": {m: round(r, 1) for m, r in medians.items()}, "ratios": ratios}))


if __name__ == "__main__":
    main()
