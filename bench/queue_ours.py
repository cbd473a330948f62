"""Our transfer queue under the peer's suites: the same row sizes, batches and processes; figures as JSON.

    python bench/queue_ours.py --rounds 5 --out ours.json

The controller has a process of its own and every client of a stream or a relay too. A get counts once its
bytes are in a fresh tensor. Round 0 of each case is not counted.
"""

import argparse
import asyncio
import itertools
import json
import multiprocessing as mp
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from headrace.transferqueue import Client, Column, Controller, Dtype, Rows, TableSpec, Task
from headrace.transferqueue.solitude import quiet_collector

KIB, MIB = 1024, 1024 * 1024
SIZES = {"1KiB": (KIB, 1024), "64KiB": (64 * KIB, 256), "1MiB": (MIB, 64)}
STREAMS = {"1KiB": (KIB, 8192, 128), "64KiB": (64 * KIB, 2048, 32), "1MiB": (MIB, 256, 8)}
RELAYS = {"1KiB": (KIB, 2048, 64), "64KiB": (64 * KIB, 1024, 32)}
OWN = {
    "ci 128x4x1024": (128, 4, 1024, False),
    "small/4 256x9x8192": (256, 9, 8192, False),
    "small 1024x9x8192": (1024, 9, 8192, False),
    "small/4 complex 256x9x8192": (256, 9, 8192, True),
}
TIMEOUT_S = 60.0
Figures = dict[str, Any]


def table(name: str, *columns: Column, tasks: tuple[Task, ...]) -> TableSpec:
    return TableSpec(name=name, columns=columns, tasks=tasks, max_rows=1 << 20, max_bytes=2 << 30)


def bytes_table(name: str) -> TableSpec:
    return table(name, Column(name="x", dtype="list<int8>"), tasks=(Task(name=name, reads=("x",)),))


def relay_table(name: str) -> TableSpec:
    columns = (
        Column(name="x", dtype="list<int8>"),
        *(Column(name=n, dtype="float32") for n in ("reward", "ref")),
    )
    tasks = (
        Task(name=f"{name}_reward", reads=("x",), writes=("reward",)),
        Task(name=f"{name}_ref", reads=("x",), writes=("ref",)),
        Task(name=f"{name}_train", reads=("x", "reward", "ref")),
    )
    return table(name, *columns, tasks=tasks)


def random_rows(size: int, rows: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 127, (rows, size), np.int8)


def copied(rows: Rows) -> list[Any]:
    """Every column's values in fresh tensors; strings as a list."""
    import torch

    out: list[Any] = []
    for name, array in rows.columns.items():
        if rows.spec.column(name).is_list():
            out.append(torch.from_numpy(array.flatten().to_numpy().copy()))
        else:
            out.append(rows[name])
    return out


def summary(seconds: list[float]) -> Figures:
    ms = np.asarray(seconds) * 1e3
    return {"n": len(ms), "p50_ms": float(np.median(ms)), "p99_ms": float(np.percentile(ms, 99))}


def rates(size: int, rows: int, seconds: list[float]) -> Figures:
    median = statistics.median(seconds)
    return {"MB_per_s": size / median / 1e6, "samples_per_s": rows / median, "batch": summary(seconds)}


async def timed(work: Awaitable[Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = await work
    return time.perf_counter() - start, result


async def take(client: Client, task: str, rows: int) -> Any:
    lease = await client.lease(task, rows, timeout_s=TIMEOUT_S)
    return lease, copied(lease.rows)


async def rows_in_batches(client: Client, rounds: int) -> Figures:
    out = {}
    for label, (size, batch) in SIZES.items():
        data, name = random_rows(size, batch), f"kv_{label}"
        await client.create(bytes_table(name))
        puts, gets, copies = [], [], []
        for turn in range(rounds + 1):
            uids = np.arange(batch) + turn * batch
            put_s, _ = await timed(client.put(name, uids, {"x": data}, groups=uids))
            get_s, (lease, fresh) = await timed(take(client, name, batch))
            start = time.perf_counter()
            data.copy()
            copy_s = time.perf_counter() - start
            if turn == 0 and not np.array_equal(fresh[0].numpy(), data.reshape(-1)):
                raise ValueError(f"{label}: what came back is not what was put")
            await client.ack(lease)
            if turn:
                puts.append(put_s)
                gets.append(get_s)
                copies.append(copy_s)
        total = size * batch
        out[label] = {
            "put": rates(total, batch, puts),
            "get": rates(total, batch, gets),
            "copy": rates(total, batch, copies),
        }
    return out


async def latency(client: Client, tries: int = 200) -> Figures:
    out = {}
    for label, (size, _) in SIZES.items():
        data, name = random_rows(size, 1), f"latency_{label}"
        await client.create(bytes_table(name))
        puts, gets = [], []
        for uid in range(tries):
            put_s, _ = await timed(client.put(name, [uid], {"x": data}, groups=[uid]))
            get_s, (lease, _) = await timed(take(client, name, 1))
            await client.ack(lease)
            puts.append(put_s)
            gets.append(get_s)
        out[label] = {"put": summary(puts), "get": summary(gets)}
    return out


async def stored_rows(client: Client) -> Figures:
    """Latency of a lease of 8 rows against the rows that are stored."""
    out = {}
    for stored in (1000, 10_000, 50_000, 100_000):
        name = f"meta_{stored}"
        await client.create(bytes_table(name))
        for first in range(0, stored, 1000):
            uids = np.arange(first, first + 1000)
            await client.put(name, uids, {"x": random_rows(8, 1000)}, groups=uids)
        leases = [await timed(client.lease(name, 8, timeout_s=TIMEOUT_S)) for _ in range(60)]
        out[str(stored)] = {"lease_8": summary([seconds for seconds, _ in leases[10:]])}
        await client.drop(name, range(stored), "measured")
    return out


def own_case(
    batch: int, fields: int, length: int, mixed: bool
) -> tuple[dict[str, Any], dict[str, Dtype], int]:
    """The columns, their dtypes and the bytes of the peer's own workload."""
    random = np.random.default_rng(0)
    dense = (fields + 2) // 3 if mixed else fields
    columns: dict[str, Any] = {
        f"dense_{i}": random.standard_normal((batch, length), np.float32) for i in range(dense)
    }
    size = dense * batch * length * 4
    lengths = [max(1, round(1 + row * (length - 1) / (batch - 1))) for row in range(batch)]
    for i in range(dense if mixed else 0):
        columns[f"ragged_{i}"] = [random.standard_normal(n, np.float32) for n in lengths]
        size += sum(lengths) * 4
    for i in range(fields - len(columns)):
        columns[f"text_{i}"] = [os.urandom(length * 2).hex() for _ in range(batch)]
        size += batch * length * 4
    dtypes: dict[str, Dtype] = {
        name: "string" if name.startswith("text") else "list<float32>" for name in columns
    }
    return columns, dtypes, size


async def own(client: Client, rounds: int) -> Figures:
    out = {}
    for number, (label, case) in enumerate(OWN.items()):
        columns, dtypes, size = own_case(*case)
        name, batch = f"own_{number}", case[0]
        declared = tuple(Column(name=n, dtype=dtype) for n, dtype in dtypes.items())
        await client.create(table(name, *declared, tasks=(Task(name=name, reads=tuple(columns)),)))
        puts, gets = [], []
        for turn in range(min(rounds, 3) + 1):
            uids = np.arange(batch) + turn * batch
            put_s, _ = await timed(client.put(name, uids, columns, groups=uids))
            get_s, (lease, _) = await timed(take(client, name, batch))
            await client.ack(lease)
            if turn:
                puts.append(put_s)
                gets.append(get_s)
        out[label] = {"bytes": size, "put": rates(size, batch, puts), "get": rates(size, batch, gets)}
    return out


async def produce(client: Client, name: str, size: int, total: int, chunk: int) -> float:
    data = random_rows(size, chunk)
    start = time.time()
    for first in range(0, total, chunk):
        uids = np.arange(first, first + chunk)
        await client.put(name, uids, {"x": data}, groups=uids)
    return start


async def consume(client: Client, task: str, total: int, chunk: int, writes: str | None) -> float:
    done = 0
    while done < total:
        lease, _ = await take(client, task, chunk)
        if writes:
            cells = np.zeros(len(lease), np.float32)
            await client.put(lease.table, lease.rows.uids, {writes: cells}, lease=lease, ack=True)
        else:
            await client.ack(lease)
        done += len(lease)
    return time.time()


def worker(address: str, pipe: Connection) -> None:
    """A process with one client: runs what it is sent until None comes."""
    import torch

    torch.set_num_threads(1)

    async def serve() -> None:
        async with await Client.connect(address, holder=f"worker {os.getpid()}") as client:
            pipe.send("ready")
            while (order := await asyncio.to_thread(pipe.recv)) is not None:
                kind, arguments = order
                pipe.send(await {"produce": produce, "consume": consume}[kind](client, *arguments))

    asyncio.run(serve())


def serve(directory: str, pipe: Connection) -> None:
    """The controller's process."""
    quiet_collector()

    async def run() -> None:
        async with Controller(Path(directory) / "payload", f"ipc://{directory}/queue") as controller:
            pipe.send(controller.address)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


@contextmanager
def process(target: Callable[..., None], argument: str) -> Iterator[Connection]:
    """A child with a pipe to it, told to end on the way out."""
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=target, args=(argument, there))
    child.start()
    try:
        yield here
        here.send(None)
    except BaseException:
        child.terminate()
        raise
    finally:
        child.join(TIMEOUT_S)


def order(pipes: list[Connection], orders: list[tuple[str, tuple[Any, ...]]]) -> float:
    """Gives each worker its order; seconds from the producer's start to the last consumer's end."""
    for pipe, one in zip(pipes, orders, strict=False):
        pipe.send(one)
    times = [pipe.recv() for pipe, _ in zip(pipes, orders, strict=False)]
    return max(times[1:]) - times[0]


def passed(total: int, size: int, seconds: list[float]) -> Figures:
    median = statistics.median(seconds)
    return {"seconds": seconds, "samples_per_s": total / median, "MB_per_s": total * size / median / 1e6}


async def streams(client: Client, pipes: list[Connection], rounds: int) -> Figures:
    out: Figures = {"stream": {}, "columns": {}}
    for (label, (size, total, chunk)), turn in itertools.product(STREAMS.items(), range(rounds)):
        name = f"stream_{label}_{turn}"
        await client.create(bytes_table(name))
        orders = [("produce", (name, size, total, chunk)), ("consume", (name, total, chunk, None))]
        out["stream"].setdefault(label, []).append(await asyncio.to_thread(order, pipes, orders))
    for (label, (size, total, chunk)), turn in itertools.product(RELAYS.items(), range(rounds)):
        name = f"relay_{label}_{turn}"
        await client.create(relay_table(name))
        orders = [
            ("produce", (name, size, total, chunk)),
            *(("consume", (f"{name}_{task}", total, chunk, task)) for task in ("reward", "ref")),
            ("consume", (f"{name}_train", total, chunk, None)),
        ]
        out["columns"].setdefault(label, []).append(await asyncio.to_thread(order, pipes, orders))
    for suite, shapes in (("stream", STREAMS), ("columns", RELAYS)):
        out[suite] = {k: passed(shapes[k][1], shapes[k][0], v) for k, v in out[suite].items()}
    return out


async def measure(address: str, rounds: int, suites: set[str], started: float) -> Figures:
    async with await Client.connect(address, holder="bench") as client:
        await client.create(bytes_table("first"))
        await client.put("first", [0], {"x": [np.zeros(8, np.int8)]}, groups=[0])
        out: Figures = {"start_s": time.perf_counter() - started}
        if "kv" in suites:
            out["kv"] = await rows_in_batches(client, rounds)
        if "latency" in suites:
            out["latency"] = await latency(client)
        if "meta" in suites:
            out["meta"] = await stored_rows(client)
        if "own" in suites:
            out["own"] = await own(client, rounds)
        if suites & {"stream", "columns"}:
            with process(worker, address) as a, process(worker, address) as b:  # noqa: SIM117
                with process(worker, address) as c, process(worker, address) as d:
                    pipes = [a, b, c, d]
                    for pipe in pipes:
                        await asyncio.to_thread(pipe.recv)
                    out |= await streams(client, pipes, rounds)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="kv,latency,stream,columns,meta,own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir="/dev/shm") as directory:
        started = time.perf_counter()
        with process(serve, directory) as pipe:
            address = pipe.recv()
            figures = asyncio.run(measure(address, args.rounds, set(args.suite.split(",")), started))
    args.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
