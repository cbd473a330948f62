"""Several nodes: loopback addresses as hosts, a storage unit on each, one cut off and brought back."""

import asyncio
import io
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from headrace.dataflow.queue_text import render
from headrace.transferqueue import (
    Client,
    Column,
    Controller,
    ControllerUnreachable,
    Refused,
    StorageUnit,
    TableSpec,
    TableStats,
    Task,
    UnitLost,
    WaitTimeout,
)
from headrace.transferqueue.disk.look import look
from headrace.transferqueue.server.nodes import AWAY_S

Make = Callable[..., Any]

UNIT = """
import asyncio, sys
from pathlib import Path
from headrace.transferqueue import StorageUnit

async def main(directory, controller, node, address):
    async with StorageUnit(Path(directory), controller, node=node, address=address) as unit:
        print(unit.address, flush=True)
        await unit.closed()

asyncio.run(main(*sys.argv[1:]))
"""


def table() -> TableSpec:
    columns = (
        Column(name="prompt", dtype="list<int32>"),
        Column(name="answer", dtype="list<int32>", aligned="answer"),
        Column(name="score", dtype="float64"),
    )
    tasks = (
        Task(name="write", reads=("prompt",), writes=("answer",)),
        Task(name="rate", reads=("answer",), writes=("score",)),
        Task(name="read", reads=("answer", "score")),
    )
    return TableSpec(name="t", columns=columns, tasks=tasks)


def start_unit(directory: Path, controller: str, node: str, host: str) -> "subprocess.Popen[str]":
    """A unit in a process of its own, serving."""
    command = [sys.executable, "-c", UNIT, str(directory), controller, node, f"tcp://{host}:*"]
    unit = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert unit.stdout is not None
    assert unit.stdout.readline().startswith(f"tcp://{host}:")
    return unit


@pytest.fixture
async def units(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    started: list[StorageUnit] = []

    async def start(controller: Controller, node: str, host: str) -> StorageUnit:
        directory = tmp_path / (node or "queue")
        unit = StorageUnit(directory, controller.address, node=node, address=f"tcp://{host}:*")
        await unit.start()
        started.append(unit)
        return unit

    yield start
    for unit in started:
        await unit.close()


async def write(client: Client, want: int, value: int) -> list[int]:
    lease = await client.lease("write", want, timeout_s=60)
    cells = [np.full(3, value, np.int32)] * len(lease)
    await client.put("t", lease.rows.uids, {"answer": cells}, lease=lease)
    await client.ack(lease)
    return lease.rows.uids.tolist()


async def test_a_put_stays_on_its_node_and_is_streamed_to_others(
    controller: Controller, connect: Make, units: Make, tmp_path: Path
) -> None:
    await units(controller, "b", "127.0.0.2")
    await units(controller, "c", "127.0.0.3")
    driver = await connect("driver")
    await driver.create(table())
    async with (
        await Client.connect(controller.address, holder="w", node="b") as writer,
        await Client.connect(controller.address, holder="r", node="c") as rater,
    ):
        await writer.put("t", [1, 2], {"prompt": [[1], [2, 2]]}, groups=[1, 2])
        assert await write(writer, 2, 7) == [1, 2]
        assert [path.suffix for path in (tmp_path / "b").glob("*.arrows")] == [".arrows"]
        assert not list((tmp_path / "queue").glob("*.arrows"))
        lease = await rater.lease("rate", 2, timeout_s=60)
        assert [cell.tolist() for cell in lease.rows["answer"]] == [[7, 7, 7], [7, 7, 7]]
        await rater.put("t", lease.rows.uids, {"score": [0.5, 1.5]}, lease=lease)
        await rater.ack(lease)
        lease = await driver.lease("read", 2, timeout_s=60)
        assert lease.rows["score"].tolist() == [0.5, 1.5]
        assert lease.rows["answer"][1].tolist() == [7, 7, 7]
        with pytest.raises(Refused, match="'answer' of table 't' is written already"):
            await rater.put("t", [1], {"answer": [[0, 0, 0]]})


async def test_a_large_block_is_streamed_in_pieces(
    controller: Controller, connect: Make, units: Make
) -> None:
    """20 MiB in pieces of 8."""
    await units(controller, "b", "127.0.0.2")
    driver = await connect("driver")
    await driver.create(table())
    tokens = np.arange(5 << 20, dtype=np.int32)
    async with await Client.connect(controller.address, holder="w", node="b") as writer:
        await writer.put("t", [1], {"prompt": [tokens]}, groups=[1])
        lease = await driver.lease("write", 1, timeout_s=60)
        assert np.array_equal(lease.rows["prompt"][0], tokens)


async def test_segments_of_a_node_go_when_the_controller_says_so(
    controller: Controller, connect: Make, units: Make, tmp_path: Path
) -> None:
    await units(controller, "b", "127.0.0.2")
    driver = await connect("driver")
    await driver.create(table())
    async with await Client.connect(controller.address, holder="w", node="b") as writer:
        await writer.put("t", [1], {"prompt": [[1]]}, groups=[1])
        await driver.drop("t", [1], "not wanted")
    async with asyncio.timeout(60):
        while list((tmp_path / "b").glob("*.arrows")):
            await driver.stats()


async def test_a_node_without_a_unit_and_a_unit_that_was_replaced_are_refused(
    controller: Controller, units: Make
) -> None:
    with pytest.raises(Refused, match="no storage unit serves node 'z'; there are: none"):
        await Client.connect(controller.address, holder="w", node="z")
    first = await units(controller, "b", "127.0.0.2")
    await units(controller, "b", "127.0.0.3")
    with pytest.raises(Refused, match="has another storage unit"):
        await first.closed()


async def test_a_unit_stops_when_its_controller_stays_away_for_longer_than_its_patience(
    tmp_path: Path,
) -> None:
    controller = Controller(tmp_path / "queue")
    await controller.start()
    unit = StorageUnit(tmp_path / "b", controller.address, node="b", timeout_s=0.6, patience_s=1.0)
    async with unit:
        await controller.close()
        with pytest.raises(ControllerUnreachable, match=r"silent for 0.6 s"):
            await unit.closed()
    assert not list((tmp_path / "b").iterdir())


async def settled(client: Client, clients: int) -> TableStats:
    """The table's figures once so many clients are connected."""
    async with asyncio.timeout(60):
        while (stats := await client.stats()).clients != clients:
            pass
    return stats.tables["t"]


async def test_a_unit_that_closes_says_so(connect: Make, units: Make, controller: Controller) -> None:
    """In memory its rows go at once: row 1 lost its prompt, row 2 its answer."""
    await units(controller, "", "127.0.0.1")
    b = await units(controller, "b", "127.0.0.2")
    driver = await connect("driver")
    await driver.create(table())
    await driver.put("t", [2], {"prompt": [[2]]}, groups=[2])
    async with await Client.connect(controller.address, holder="w", node="b") as there:
        assert await write(there, 1, 7) == [2]
        await there.put("t", [1], {"prompt": [[1]]}, groups=[1])
    await b.close()
    figures = await settled(driver, 2)
    assert figures.dropped == {"the storage unit of node 'b' was closed": 1}
    assert (figures.rows, figures.tasks["write"].ready, figures.lost) == (1, 1, 0)


async def test_a_durable_unit_that_closes_is_away_at_once(tmp_path: Path) -> None:
    async with (
        Controller(tmp_path / "q", durability="disk") as controller,
        await Client.connect(controller.address, holder="driver") as driver,
    ):
        await driver.create(table())
        async with StorageUnit(tmp_path / "b", controller.address, node="b") as unit:
            async with await Client.connect(controller.address, holder="w", node="b") as there:
                await there.put("t", [1], {"prompt": [[1]]}, groups=[1])
            served_at = unit.address
        assert (await settled(driver, 1)).parked == {"b": 1}
        async with StorageUnit(tmp_path / "b", controller.address, node="b") as unit:
            assert unit.address == served_at
            assert (await driver.lease("write", 1, timeout_s=60)).rows["prompt"][0].tolist() == [1]


async def test_a_unit_that_cannot_bind_leaves_no_client_behind(
    controller: Controller, connect: Make, units: Make, tmp_path: Path
) -> None:
    first = await units(controller, "b", "127.0.0.2")
    driver = await connect("driver")
    await driver.create(table())
    with pytest.raises(Refused, match="the storage unit cannot bind"):
        await StorageUnit(tmp_path / "c", controller.address, node="c", address=first.address).start()
    await settled(driver, 2)


@pytest.mark.slow
async def test_rows_of_a_dead_node_are_issued_again_or_dropped_and_the_reader_is_told(
    units: Make, tmp_path: Path
) -> None:
    """B02: kill -9 of the unit that holds two answers and one prompt; the node comes back empty."""
    async with (
        Controller(tmp_path / "queue", give_up_s=AWAY_S + 4) as controller,
        await Client.connect(controller.address, holder="driver") as driver,
    ):
        await lose_a_node(controller, driver, units, tmp_path)


async def lose_a_node(controller: Controller, driver: Client, units: Make, tmp_path: Path) -> None:
    unit = await asyncio.to_thread(start_unit, tmp_path / "b", controller.address, "b", "127.0.0.2")
    await units(controller, "", "127.0.0.1")
    await driver.create(table())
    await driver.put("t", [1, 2], {"prompt": [[1], [2]]}, groups=[1, 2])
    writer = await Client.connect(controller.address, holder="w", node="b")
    assert await write(writer, 2, 7) == [1, 2]
    await writer.put("t", [3], {"prompt": [[3]]}, groups=[3])
    rated = await Client.connect(controller.address, holder="r")
    lease = await rated.lease("rate", 1, timeout_s=60)
    await rated.put("t", lease.rows.uids, {"score": [1.0]}, lease=lease)
    await rated.ack(lease)
    unit.send_signal(signal.SIGKILL)
    unit.communicate()
    reader = await Client.connect(controller.address, holder="r2", timeout_s=AWAY_S + 0.5)
    gone = (
        r"rows \[2\] .* node 'b' .* was silent for 3.5 s; its rows are parked; after 7 s without it they are"
    )
    with pytest.raises(UnitLost, match=gone):
        await reader.lease("rate", 2, timeout_s=60)
    again = await driver.lease("write", 2, timeout_s=60)
    assert (again.rows.uids.tolist(), again.rows.attempts.tolist()) == ([1, 2], [1, 1])
    await driver.release(again, reason="only looked at", failed=False)
    table_ = (await driver.stats()).tables["t"]
    assert (table_.rows, table_.lost, sum(table_.dropped.values())) == (2, 0, 1)
    assert table_.tasks["write"].ready == 2
    await units(controller, "b", "127.0.0.2")
    async with await Client.connect(controller.address, holder="w2", node="b") as again:
        assert await write(again, 2, 8) == [1, 2]
        lease = await reader.lease("rate", 2, timeout_s=60)
        assert [cell.tolist() for cell in lease.rows["answer"]] == [[8, 8, 8], [8, 8, 8]]
        await reader.put("t", lease.rows.uids, {"score": [2.0, 3.0]}, lease=lease)
        await reader.ack(lease)
        final = await driver.lease("read", 2, timeout_s=60)
        assert final.rows["score"].tolist() == [2.0, 3.0]
    for client in (writer, rated, reader):
        await client.close()


def shown(directory: Path) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(look(directory)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.slow
async def test_rows_of_a_durable_node_come_back_with_it(tmp_path: Path) -> None:
    async with Controller(tmp_path / "q", durability="disk") as controller:
        unit = await asyncio.to_thread(start_unit, tmp_path / "b", controller.address, "b", "127.0.0.2")
        driver = await Client.connect(controller.address, holder="driver", timeout_s=AWAY_S + 1)
        await driver.create(table())
        writer = await Client.connect(controller.address, holder="w", node="b")
        await writer.put("t", [1, 2], {"prompt": [[1], [2]]}, groups=[1, 2])
        unit.send_signal(signal.SIGKILL)
        unit.communicate()
        with pytest.raises(UnitLost, match=r"rows \[1, 2\] .* its rows are parked and come back with it"):
            await driver.lease("write", 2, timeout_s=60)
        with pytest.raises(WaitTimeout, match=r"2 rows are parked: .* on nodes that are away \('b'\)"):
            await driver.lease("write", 2, timeout_s=0.01)
        assert (await driver.stats()).tables["t"].parked == {"b": 2}
        assert "2 rows parked on node b" in shown(tmp_path / "q")
        async with StorageUnit(tmp_path / "b", controller.address, node="b", address="tcp://127.0.0.4:*"):
            lease = await driver.lease("write", 2, timeout_s=60)
            assert [cell.tolist() for cell in lease.rows["prompt"]] == [[1], [2]]
            assert lease.rows.attempts.tolist() == [1, 1]
            assert (await driver.stats()).tables["t"].parked == {}
            with pytest.raises(WaitTimeout):
                await driver.lease("write", 2, timeout_s=0.01)
        await driver.close()
        await writer.close()
    async with Controller(tmp_path / "q", durability="disk") as controller:
        assert controller.recovered is not None
        async with (
            StorageUnit(tmp_path / "b", controller.address, node="b", address="tcp://127.0.0.2:*"),
            await Client.connect(controller.address, holder="driver") as driver,
        ):
            assert (await driver.stats()).tables["t"].rows == 2
            lease = await driver.lease("write", 2, timeout_s=60)
            assert [cell.tolist() for cell in lease.rows["prompt"]] == [[1], [2]]
