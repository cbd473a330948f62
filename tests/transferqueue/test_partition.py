"""A node that is cut off without a word, its sockets left open, and brought back."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from headrace.transferqueue import (
    Client,
    Column,
    Controller,
    ControllerUnreachable,
    Refused,
    StorageUnit,
    TableSpec,
    Task,
    UnitLost,
    WaitTimeout,
)
from headrace.transferqueue.server.nodes import AWAY_S
from tests.transferqueue.relay import Relay

pytestmark = pytest.mark.slow
SHORT_S = 2.0
LEASE_S = 9.0


def table() -> TableSpec:
    columns = (Column(name="prompt", dtype="list<int32>"), Column(name="answer", dtype="list<int32>"))
    tasks = (
        Task(name="write", reads=("prompt",), writes=("answer",)),
        Task(name="read", reads=("answer",)),
    )
    return TableSpec(name="t", columns=columns, tasks=tasks, lease_s=LEASE_S)


class Node:
    """Host b: whatever goes to it or comes from it passes through `relays`, the first to the controller."""

    def __init__(self, relays: list[Relay], unit: StorageUnit) -> None:
        self.unit = unit
        self._relays = relays

    async def client(self, holder: str, *, timeout_s: float = 30.0) -> Client:
        return await Client.connect(self._relays[0].address, holder=holder, node="b", timeout_s=timeout_s)

    def cut(self) -> None:
        for relay in self._relays:
            relay.cut()

    def mend(self) -> None:
        for relay in self._relays:
            relay.mend()


@asynccontextmanager
async def host_b(controller: Controller, home_directory: Path, directory: Path) -> AsyncIterator[Node]:
    """127.0.0.2 is what it looks like from outside, 127.0.0.3 from inside."""
    async with AsyncExitStack() as stack:
        to_controller = await stack.enter_async_context(Relay("127.0.0.3", controller.address))
        to_home, to_b = [await stack.enter_async_context(Relay(f"127.0.0.{host}")) for host in (3, 2)]
        home = StorageUnit(home_directory, controller.address, node="", advertise=to_home.address)
        unit = StorageUnit(
            directory,
            to_controller.address,
            node="b",
            address="tcp://127.0.0.3:*",
            advertise=to_b.address,
            timeout_s=SHORT_S,
        )
        for each, relay in ((home, to_home), (unit, to_b)):
            await stack.enter_async_context(each)
            relay.target = each.address
        yield Node([to_controller, to_home, to_b], unit)


async def answer(client: Client, uids: list[int]) -> None:
    """Leases these rows, writes three times their uid for each and acknowledges them."""
    lease = await client.lease("write", len(uids), timeout_s=60)
    assert lease.rows.uids.tolist() == uids
    cells = [np.full(3, uid, np.int32) for uid in uids]
    await client.put("t", uids, {"answer": cells}, lease=lease, ack=True)


async def parked(client: Client, count: dict[str, int]) -> None:
    """Returns once that many rows are parked."""
    async with asyncio.timeout(60):
        while (await client.stats()).tables["t"].parked != count:
            pass


async def test_a_durable_node_comes_back_with_all_its_rows_and_its_clients_go_on(tmp_path: Path) -> None:
    """Rows 1 and 2 are answered on node b; row 3 is leased there by a client that gives up, row 4 by one
    that waits; the node is cut off for longer than the controller waits for its unit."""
    async with AsyncExitStack() as stack:
        controller = await stack.enter_async_context(Controller(tmp_path / "q", durability="disk"))
        b = await stack.enter_async_context(host_b(controller, tmp_path / "q", tmp_path / "b"))
        driver, reader = [
            await stack.enter_async_context(
                await Client.connect(controller.address, holder=holder, timeout_s=SHORT_S)
            )
            for holder in ("driver", "reader")
        ]
        await driver.create(table())
        await driver.put("t", [1, 2, 3, 4], {"prompt": [[1]] * 4}, groups=[1, 2, 3, 4])
        patient = await stack.enter_async_context(await b.client("patient"))
        hasty = await b.client("hasty", timeout_s=SHORT_S)
        await answer(patient, [1, 2])
        given_up = await hasty.lease("write", 1, timeout_s=60)
        kept = await patient.lease("write", 1, timeout_s=60)

        b.cut()
        writing = asyncio.create_task(
            patient.put("t", [4], {"answer": [np.full(3, 4, np.int32)]}, lease=kept, ack=True)
        )
        with pytest.raises(
            UnitLost,
            match=r"rows \[1, 2\] cannot be read: the storage unit of node 'b' .* was silent for 2 s",
        ):
            await reader.lease("read", 2, timeout_s=60)
        with pytest.raises(ControllerUnreachable, match="silent for 2 s"):
            await hasty.ack(given_up)
        await parked(driver, {"b": 2})
        with pytest.raises(WaitTimeout, match=r"2 rows are parked: .* away \('b'\)"):
            await reader.lease("read", 2, timeout_s=0.01)

        b.mend()
        await writing
        await parked(driver, {})
        read = await reader.lease("read", 3, timeout_s=60)
        assert read.rows.uids.tolist() == [1, 2, 4]
        assert [cell.tolist() for cell in read.rows["answer"]] == [[1] * 3, [2] * 3, [4] * 3]
        assert read.rows.attempts.tolist() == [1, 1, 1], "what nobody could read cost no attempt"
        await reader.ack(read)
        again = await driver.lease("write", 2, timeout_s=2 * LEASE_S)
        assert (again.rows.uids.tolist(), again.rows.attempts.tolist()) == ([3], [2])
        figures = (await driver.stats()).tables["t"]
        assert (figures.finished, figures.rows, figures.lost, figures.dropped) == (3, 1, 0, {})
        with pytest.raises(WaitTimeout):
            await driver.lease("write", 1, timeout_s=0.01)
        await hasty.close()


async def test_a_node_in_memory_that_stays_away_is_given_up_and_its_leases_return_once(
    tmp_path: Path,
) -> None:
    """Row 1 was answered on node b and is issued again, row 2 was put there and is dropped, row 3 is leased
    there: it goes to another holder, once."""
    async with AsyncExitStack() as stack:
        controller = await stack.enter_async_context(Controller(tmp_path / "q", give_up_s=AWAY_S + 2))
        b = await stack.enter_async_context(host_b(controller, tmp_path / "q", tmp_path / "b"))
        driver = await stack.enter_async_context(
            await Client.connect(controller.address, holder="driver", timeout_s=SHORT_S)
        )
        await driver.create(table())
        await driver.put("t", [1, 3], {"prompt": [[1]] * 2}, groups=[1, 3])
        there = await b.client("there")
        await answer(there, [1])
        held = await there.lease("write", 1, timeout_s=60)
        assert held.rows.uids.tolist() == [3]
        await there.put("t", [2], {"prompt": [[2]]}, groups=[2])

        b.cut()
        with pytest.raises(UnitLost, match=r"rows \[1\] cannot be read: the storage unit of node 'b'"):
            await driver.lease("read", 1, timeout_s=60)
        await parked(driver, {"b": 2})
        await parked(driver, {})
        figures = (await driver.stats()).tables["t"]
        reason = "the storage unit of node 'b' was away for 5 s"
        assert (figures.rows, figures.dropped, figures.lost) == (2, {reason: 1}, 0)
        again = await driver.lease("write", 9, timeout_s=60)
        assert (again.rows.uids.tolist(), again.rows.attempts.tolist()) == ([1, 3], [1, 2])
        cells = [np.full(3, uid + 10, np.int32) for uid in (1, 3)]
        await driver.put("t", [1, 3], {"answer": cells}, lease=again, ack=True)

        b.mend()
        with pytest.raises(Refused, match="'b' was given up"):
            await b.unit.closed()
        with pytest.raises(ControllerUnreachable, match="connect again"):
            await there.put("t", [3], {"answer": [[0]]}, lease=held, ack=True)
        read = await driver.lease("read", 9, timeout_s=60)
        assert [cell.tolist() for cell in read.rows["answer"]] == [[11] * 3, [13] * 3]
        await driver.ack(read)
        figures = (await driver.stats()).tables["t"]
        assert (figures.finished, figures.rows, figures.lost) == (2, 0, 0)
        await there.close()


async def test_a_short_cut_is_noticed_by_nobody(tmp_path: Path) -> None:
    """A block asked for while the line is dead arrives once it is back, on another connection."""
    async with AsyncExitStack() as stack:
        controller = await stack.enter_async_context(Controller(tmp_path / "q"))
        b = await stack.enter_async_context(host_b(controller, tmp_path / "q", tmp_path / "b"))
        driver = await stack.enter_async_context(
            await Client.connect(controller.address, holder="driver", timeout_s=30.0)
        )
        await driver.create(table())
        there = await stack.enter_async_context(await b.client("there"))
        await there.put("t", [1, 2], {"prompt": [[1], [2]]}, groups=[1, 2])
        b.cut()
        reading = asyncio.create_task(driver.lease("write", 2, timeout_s=60))
        await parked(driver, {"b": 2})
        b.mend()
        lease = await reading
        assert [cell.tolist() for cell in lease.rows["prompt"]] == [[1], [2]]
        await parked(driver, {})
        assert (await driver.stats()).tables["t"].tasks["write"].leased == 2


def test_packets_that_vanish_between_two_network_namespaces_cost_nothing_but_time(tmp_path: Path) -> None:
    """B02, over CURVE: rows 1 and 2 are there before the cut, row 3 is put while it lasts."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("unshare, nsenter or ip is not installed")
    cable = "unshare --net ip link add here type veth peer name there"
    allowed = subprocess.run(cable.split(), capture_output=True, text=True, check=False)
    if allowed.returncode:
        pytest.skip(f"no virtual cables between network namespaces here: {allowed.stderr.strip()}")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "tests.transferqueue.parted_run", str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["lost"].startswith(
        "rows [1, 2] cannot be read: the storage unit of node 'b' at tcp://10.77.0.2:"
    )
    assert (seen["first"], seen["parked"], seen["second"]) == ("put\n", {"b": 2}, "put again\n")
    assert seen["rows"] == [[1, [1]], [2, [2]], [3, [3]]]
    assert set(seen["attempts"]) == {1}
