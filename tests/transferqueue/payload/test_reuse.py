"""Memory that is written again, over a real socket: what a reader looks at never changes under it."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.transferqueue import Client, Column, Controller, StorageUnit, TableSpec, Task

Make = Callable[..., Any]
SIZE = 4 << 20
"""Bytes of a row: it fills a segment."""


def table(**changes: Any) -> TableSpec:
    columns = (Column(name="x", dtype="int8", shape=(SIZE,)), Column(name="y", dtype="float64"))
    tasks = tuple(Task(name=name, reads=("x",)) for name in changes.pop("tasks", ("eat",)))
    return TableSpec(name="t", columns=columns, tasks=tasks, **changes)


async def put(client: Client, uid: int, value: int | None = None) -> None:
    cells = np.full((1, SIZE), uid % 100 if value is None else value, np.int8)
    await client.put("t", [uid], {"x": cells}, groups=[uid])


async def take(client: Client) -> np.ndarray:
    """The cells of one row, which is acknowledged."""
    lease = await client.lease("eat", 1, timeout_s=60)
    await client.ack(lease)
    return lease.rows["x"]


def files(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in directory.iterdir()}


async def test_a_hundred_rounds_go_through_a_few_files(connect: Make, tmp_path: Path) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    inodes: set[int] = set()
    for uid in range(100):
        await put(writer, uid)
        assert (await take(reader))[0, 0] == uid
        inodes |= set(files(tmp_path / "queue").values())
        assert len(files(tmp_path / "queue")) <= 3
    assert len(inodes) <= 4


async def test_a_view_keeps_its_bytes_while_later_puts_come(connect: Make, tmp_path: Path) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    await put(writer, 0, value=7)
    kept = (await take(reader))[0, 100:200]
    inode = next(iter(files(tmp_path / "queue").values()))
    for uid in range(1, 20):
        await put(writer, uid)
        await take(reader)
    assert kept.tolist() == [7] * 100
    assert inode in files(tmp_path / "queue").values()
    assert [name for name, other in files(tmp_path / "queue").items() if other == inode] == [
        f"{writer._connection.identity.hex()}-000000.arrows"
    ]
    del kept
    for uid in range(20, 24):
        await put(writer, uid)
        assert (await take(reader))[0, 0] == uid
    assert [name[-7:] for name, other in files(tmp_path / "queue").items() if other == inode] != ["0.arrows"]


async def test_torch_and_arrow_views_hold_a_file_as_well(connect: Make, tmp_path: Path) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    views: list[Any] = []
    for uid in range(2):
        await put(writer, uid)
        lease = await reader.lease("eat", 1, timeout_s=60)
        views.append(lease.rows.torch("x") if uid else lease.rows.arrow("x"))
        await reader.ack(lease)
    for uid in range(2, 8):
        await put(writer, uid)
        await take(reader)
    assert views[0].flatten()[5].as_py() == 0
    assert views[1][0, 5].item() == 1


async def test_what_was_written_to_a_view_is_not_read_in_later_rows(connect: Make, tmp_path: Path) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    for uid in range(6):
        await put(writer, uid, value=uid)
        lease = await reader.lease("eat", 1, timeout_s=60)
        assert set(np.unique(lease.rows["x"]).tolist()) == {uid}
        lease.rows.torch("x")[0, ::4096] = -1
        await reader.ack(lease)
        del lease
    assert len(set(files(tmp_path / "queue").values())) <= 3


async def test_a_reader_that_was_evicted_keeps_what_it_looks_at(connect: Make, tmp_path: Path) -> None:
    """It may be alive: its file is unlinked, not written again."""
    writer, zombie, reader = await connect("w"), await connect("z"), await connect("r")
    await writer.create(table())
    await put(writer, 0, value=7)
    view = (await take(zombie))[0]
    inode = next(iter(files(tmp_path / "queue").values()))
    await writer.evict("z", "it is silent")
    for uid in range(1, 10):
        await put(writer, uid)
        await take(reader)
        assert inode not in list(files(tmp_path / "queue").values())[1:]
    assert inode not in files(tmp_path / "queue").values()
    assert view[:3].tolist() == [7, 7, 7]


async def test_a_reader_that_closes_keeps_what_it_looks_at(connect: Make, tmp_path: Path) -> None:
    writer, leaving, reader = await connect("w"), await connect("l"), await connect("r")
    await writer.create(table())
    await put(writer, 0, value=7)
    view = (await take(leaving))[0]
    await leaving.close()
    for uid in range(1, 10):
        await put(writer, uid)
        await take(reader)
    assert view[:3].tolist() == [7, 7, 7]


async def test_files_that_come_back_from_a_writer_that_left_are_removed(
    connect: Make, tmp_path: Path
) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    for uid in range(3):
        await put(writer, uid)
    views = [await take(reader) for _ in range(3)]
    await writer.close()
    await reader.stats()
    assert [view[0, 0] for view in views] == [0, 1, 2]
    del views
    await reader.stats()
    assert files(tmp_path / "queue") == {}


async def test_a_cancelled_lease_holds_no_file(connect: Make, tmp_path: Path) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    for uid in range(12):
        await put(writer, uid)
        asking = asyncio.create_task(reader.lease("eat", 1, timeout_s=60))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await take(writer))[0, 0] == uid
        await reader.stats()
    assert len(files(tmp_path / "queue")) <= 3


async def test_a_put_that_is_compared_holds_no_file(connect: Make, tmp_path: Path) -> None:
    """The same put again is answered with where the cells are."""
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    for uid in range(8):
        await put(writer, uid)
        await put(writer, uid)
        assert (await take(reader))[0, 0] == uid
    assert len(files(tmp_path / "queue")) <= 4


async def test_a_report_that_arrives_twice_counts_once(connect: Make, tmp_path: Path) -> None:
    """The message that says so is sent again, as after a break of the line; one view is left."""
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table(tasks=("eat", "see")))
    await put(writer, 0, value=7)
    seen = await reader.lease("see", 1, timeout_s=60)
    await reader.ack(seen)
    del seen
    port, sent = reader._connection._port, []
    send = port.send
    port.send = lambda frames: sent.append(frames) or send(frames)
    view = await take(reader)
    for frames in sent:
        send(frames)
    port.send = send
    await reader.stats()
    for uid in range(1, 8):
        await put(writer, uid)
        await take(writer)
    assert view[0, :3].tolist() == [7, 7, 7]


async def test_a_file_that_a_forked_process_may_look_at_is_not_written_again(
    connect: Make, tmp_path: Path
) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    await put(writer, 0, value=7)
    view = await take(reader)
    here, there = multiprocessing.Pipe()

    child = os.fork()
    if child == 0:
        there.recv()
        there.send(view[0, :3].tolist())
        os._exit(0)
    del view
    for uid in range(1, 8):
        await put(writer, uid)
        await take(reader)
    here.send("look")
    assert here.recv() == [7, 7, 7]
    os.waitpid(child, 0)


async def test_a_reader_killed_with_kill_9_costs_no_more_than_the_limit(
    controller: Controller, connect: Make, tmp_path: Path
) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    await put(writer, 0)
    code = (
        "import sys; from headrace.transferqueue import BlockingClient\n"
        "queue = BlockingClient.connect(sys.argv[1], holder='victim')\n"
        "lease = queue.lease('eat', 1, timeout_s=60); queue.ack(lease)\n"
        "print(len(lease), flush=True); sys.stdin.read()"
    )
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, controller.address, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert victim.stdout is not None
    assert (await victim.stdout.readline()).strip() == b"1"
    victim.send_signal(signal.SIGKILL)
    await victim.wait()
    for uid in range(1, 8):
        await put(writer, uid)
        await take(reader)
    first = f"{writer._connection.identity.hex()}-000000.arrows"
    assert first in files(tmp_path / "queue")
    await writer.evict("victim", "killed")
    assert first not in files(tmp_path / "queue")


async def test_a_writer_killed_with_kill_9_leaves_no_file_once_it_is_evicted(
    controller: Controller, connect: Make, tmp_path: Path
) -> None:
    reader = await connect("r")
    await reader.create(table())
    code = (
        "import sys, numpy as np; from headrace.transferqueue import BlockingClient\n"
        "queue = BlockingClient.connect(sys.argv[1], holder='victim')\n"
        "for uid in range(4):\n"
        f"    queue.put('t', [uid], {{'x': np.full((1, {SIZE}), uid, np.int8)}}, groups=[uid])\n"
        "    print(uid, flush=True); sys.stdin.readline()"
    )
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, controller.address, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert victim.stdout is not None and victim.stdin is not None
    view = np.empty((1, 0), np.int8)
    for uid in range(4):
        assert int(await victim.stdout.readline()) == uid
        view = await take(reader)
        victim.stdin.write(b"\n" if uid < 3 else b"")
    victim.send_signal(signal.SIGKILL)
    await victim.wait()
    await reader.stats()
    assert any(name.endswith(".spare") for name in files(tmp_path / "queue"))
    await reader.evict("victim", "killed")
    assert files(tmp_path / "queue") == {}
    assert view[0, :3].tolist() == [3, 3, 3]


async def test_a_reader_of_another_node_gets_the_bytes_of_its_lease(
    controller: Controller, connect: Make, tmp_path: Path
) -> None:
    writer = await connect("w")
    await writer.create(table())
    async with (
        StorageUnit(tmp_path / "queue", controller.address, node=""),
        StorageUnit(tmp_path / "c", controller.address, node="c"),
        await Client.connect(controller.address, holder="r", node="c") as reader,
    ):
        kept = []
        for uid in range(8):
            await put(writer, uid)
            kept.append((await take(reader))[0, :2].tolist())
        await reader.stats()
        assert kept == [[uid, uid] for uid in range(8)]
        assert len(files(tmp_path / "queue")) <= 4


async def test_a_reader_that_waits_reports_by_its_pulse(connect: Make, tmp_path: Path) -> None:
    writer, reader = await connect("w"), await connect("r")
    await writer.create(table())
    await put(writer, 0)
    view = await take(reader)
    await put(writer, 1)
    await writer.drop("t", [1], "not wanted")
    waiting = asyncio.create_task(reader.lease("eat", 1, timeout_s=60))
    await writer.stats()
    assert not list((tmp_path / "queue").glob("*-000000.spare"))
    del view
    reader._connection.quicken(0.05)
    async with asyncio.timeout(60):
        while not list((tmp_path / "queue").glob("*-000000.spare")):
            await writer.stats()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
