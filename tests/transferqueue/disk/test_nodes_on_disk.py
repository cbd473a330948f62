"""Another node's part of a durable queue: what is synced, found torn and archived there."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.dataflow.cli import main
from headrace.transferqueue import (
    Client,
    Column,
    Controller,
    PayloadError,
    StorageUnit,
    TableSpec,
    Task,
    UnitLost,
    WaitTimeout,
)
from headrace.transferqueue.disk.archive import read_archive
from headrace.transferqueue.disk.chronicle import rehearse
from headrace.transferqueue.disk.journal import read_journal
from headrace.transferqueue.link.wire import pack_ints, unpack_ints
from headrace.transferqueue.payload import safety
from headrace.transferqueue.server.nodes import AWAY_S
from headrace.transferqueue.state.parking import parked_rows
from tests.transferqueue.disk.mortal import CLIENTS, MortalQueue

Make = Callable[..., Any]


def table(**changes: Any) -> TableSpec:
    columns = (Column(name="prompt", dtype="list<int32>"), Column(name="answer", dtype="list<int32>"))
    tasks = (
        Task(name="write", reads=("prompt",), writes=("answer",)),
        Task(name="read", reads=("answer",)),
    )
    return TableSpec(name="t", columns=columns, tasks=tasks, **changes)


class Queue:
    """A durable controller, a unit on node b and clients on both; each may be started again."""

    def __init__(self, directory: Path, stack: AsyncExitStack, **options: Any) -> None:
        self.home, self.b = directory / "q", directory / "b"
        self.controller = Controller(self.home, durability="disk", **options)
        self.unit: StorageUnit
        self._stack = stack

    async def start_unit(self) -> None:
        self.unit = StorageUnit(self.b, self.controller.address, node="b", address="tcp://127.0.0.2:*")
        await self.unit.start()
        self._stack.push_async_callback(self.unit.close)

    async def client(self, holder: str, node: str = "") -> Client:
        client = await Client.connect(self.controller.address, holder=holder, node=node)
        return await self._stack.enter_async_context(client)


async def started(directory: Path, stack: AsyncExitStack, **options: Any) -> Queue:
    queue = Queue(directory, stack, **options)
    await stack.enter_async_context(queue.controller)
    await queue.start_unit()
    return queue


def spoil(directory: Path, marked: int) -> None:
    """Overwrites the one cell with these entries, as a torn write leaves it."""
    needle = np.full(8, marked, np.int32).tobytes()
    (path,) = [path for path in directory.glob("*.arrows") if needle in path.read_bytes()]
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(needle))
        file.write(bytes(4))


async def test_cells_torn_on_another_node_are_found_when_its_unit_comes_back(tmp_path: Path) -> None:
    """Of four rows on node b the prompt of row 1 and the answer of row 2 are torn: row 1 is dropped, row 2
    is answered anew, rows 3 and 4 stay."""
    async with AsyncExitStack() as stack:
        queue = await started(tmp_path, stack)
        there, driver = await queue.client("there", "b"), await queue.client("driver")
        await there.create(table())
        for uid in (1, 2, 3, 4):
            prompt = [np.full(8, 100 + uid, np.int32)]
            await there.put("t", [uid], {"prompt": prompt}, groups=[uid])
        for uid in (1, 2):
            lease = await there.lease("write", 1, timeout_s=60)
            answer = [np.full(8, 200 + uid, np.int32)]
            await there.put("t", [uid], {"answer": answer}, lease=lease, ack=True)
        await queue.unit.close()
        spoil(tmp_path / "b", 101)
        spoil(tmp_path / "b", 202)
        await queue.start_unit()
        figures = (await driver.stats()).tables["t"]
        assert (figures.rows, figures.dropped, figures.lost) == (3, {"payload torn or lost": 1}, 0)
        lease = await driver.lease("write", 9, timeout_s=60)
        assert lease.rows.uids.tolist() == [2, 3, 4]
        assert [cell[0] for cell in lease.rows["prompt"]] == [102, 103, 104]


async def test_a_block_that_its_unit_has_not_got_is_taken_out_by_the_reader_that_misses_it(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        queue = await started(tmp_path, stack)
        there, driver = await queue.client("there", "b"), await queue.client("driver")
        await there.create(table())
        await there.put("t", [1], {"prompt": [[1]]}, groups=[1])
        for path in (tmp_path / "b").glob("*.arrows"):
            path.unlink()
        with pytest.raises(
            UnitLost, match=r"rows \[1\] .* has not got them: .* 0 rows are issued again and 1 are dropped"
        ):
            await driver.lease("write", 1, timeout_s=60)
        figures = (await driver.stats()).tables["t"]
        assert (figures.rows, figures.dropped, figures.lost) == (0, {"payload torn or lost": 1}, 0)


@pytest.mark.parametrize(("fsync", "synced"), [("always", ["file", "names", "file"]), ("batch", [])])
async def test_a_client_of_another_node_syncs_what_it_writes_where_every_put_is_to_be_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, synced: list[str]
) -> None:
    """Two puts into one segment: the file each time, the folder that names it once."""
    calls: list[str] = []
    async with AsyncExitStack() as stack:
        queue = await started(tmp_path, stack, fsync=fsync)
        there = await queue.client("there", "b")
        await there.create(table())
        real_files, real_names = safety.sync_files, safety.sync_names

        def files(directory: Path, names: list[str]) -> None:
            calls.extend("file" for _ in names if directory == tmp_path / "b")
            real_files(directory, names)

        def names(directory: Path) -> None:
            calls.extend(["names"] if directory == tmp_path / "b" else [])
            real_names(directory)

        monkeypatch.setattr(safety, "sync_files", files)
        monkeypatch.setattr(safety, "sync_names", names)
        for uid in (1, 2):
            await there.put("t", [uid], {"prompt": [[uid]]}, groups=[uid])
    assert calls == synced


async def test_archived_cells_of_another_node_are_read_from_its_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prompts lie beside the controller, the answer of row 1 on node b, where its segment is kept."""
    home, b = tmp_path / "q", tmp_path / "b"
    async with AsyncExitStack() as stack:
        queue = await started(tmp_path, stack, archive=True)
        there, driver = await queue.client("there", "b"), await queue.client("driver")
        await stack.enter_async_context(StorageUnit(home, queue.controller.address, node=""))
        await driver.create(table())
        await driver.put("t", [1, 2], {"prompt": [[1], [2, 2]]}, groups=[1, 2])
        lease = await there.lease("write", 1, timeout_s=60)
        await there.put("t", [1], {"answer": [[7, 7]]}, lease=lease, ack=True)
        await there.close()
        await driver.drop("t", [1, 2], "enough")
        async with asyncio.timeout(60):
            while not list((b / "archive").glob("*.arrows")):
                await driver.stats()
    with pytest.raises(PayloadError, match=r"cells on nodes b: give the directories .* \(--node NAME=DIR\)"):
        read_archive(home, "t")
    rows = read_archive(home, "t", nodes={"b": b}).to_pydict()
    assert (rows["uid"], rows["prompt"], rows["answer"]) == ([1, 2], [[1], [2, 2]], [[7, 7], None])
    assert read_archive(home, "t", nodes={"b": None})["answer"].to_pylist() == [None, None]
    assert main(["queue", str(home), "--export", str(tmp_path / "out")]) == 2
    assert "--node NAME=DIR" in capsys.readouterr().err
    assert main(["queue", str(home), "--export", str(tmp_path / "out"), "--node", f"b={b}"]) == 0


def test_a_node_is_away_after_a_restart_as_before_and_back_as_before(tmp_path: Path) -> None:
    """Row 1 is on node b, whose unit falls silent and attends again, a crash after each."""
    queue = MortalQueue(tmp_path)
    unit = {"node": "b", "incarnation": "first"}
    where = {"address": "tcp://127.0.0.2:1", "directory": "/b", "holds": [], "torn": []}
    queue.ask("source", "create", {"spec": table().to_wire()})
    queue.ask("a", "unit", {**unit, **where})
    queue.ask("b", "hello", {"holder": "b", "node": "b"})
    place = {"segment": f"{CLIENTS['b'].hex()}-000000.arrows", "offset": 0, "length": 64, "checksum": 0}
    cells = {"columns": ["prompt"], "groups": pack_ints([1]), "lengths": {}, "known_same": False}
    queue.ask("b", "put", {"table": "t", "uids": pack_ints([1]), "timeout_s": 0.0, **place, **cells})

    def leased() -> list[int]:
        try:
            return unpack_ints(
                queue.ask("t", "lease", {"task": "write", "want": 1, "timeout_s": 0.0})["uids"]
            )
        except WaitTimeout:
            return []

    queue.tick(AWAY_S)
    for _ in range(2):
        assert parked_rows(queue.hub.tables["t"]) == {"b": 1}
        assert parked_rows(rehearse(read_journal(tmp_path), tmp_path).tables["t"]) == {"b": 1}
        assert leased() == []
        queue.restart()
    with pytest.raises(WaitTimeout):
        queue.ask("a", "attend", {**unit, "done": [], "timeout_s": 0.0})
    for _ in range(2):
        assert parked_rows(queue.hub.tables["t"]) == {}
        queue.restart()
    assert leased() == [1]
    queue.chronicle.close()


async def test_a_unit_removes_no_cells_of_rows_whose_end_found_no_room_on_the_controller_s_disk(
    tmp_path: Path,
) -> None:
    """The controller ends before there is room: the next one has the row, and its cells are there."""
    async with asyncio.timeout(120), AsyncExitStack() as stack:
        queue = await started(tmp_path, stack)
        there, driver = await queue.client("there", "b"), await queue.client("driver")
        await driver.create(table())
        await there.put("t", [1], {"prompt": [[7]]}, groups=[1])
        await there.close()
        queue.controller.fill(True)
        dropping = asyncio.create_task(driver.drop("t", [1], "not wanted"))
        serial, short = await driver.shortages(-1, timeout_s=60)
        while not short:
            serial, short = await driver.shortages(serial, timeout_s=60)
        for _ in range(20):
            await driver.stats()
        assert list((tmp_path / "b").glob("*.arrows"))
        dropping.cancel()
        await asyncio.wait({dropping})
        await queue.controller.close()
        again = Controller(queue.home, queue.controller.address, durability="disk")
        await stack.enter_async_context(again)
        reader = await stack.enter_async_context(await Client.connect(again.address, holder="reader"))
        lease = await reader.lease("write", 1, timeout_s=60)
        assert [cell.tolist() for cell in lease.rows["prompt"]] == [[7]]
        await driver.close()
