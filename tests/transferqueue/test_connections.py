"""A queue's address: who may come to it, what becomes of messages, and what is left of it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from headrace.transferqueue import (
    Client,
    Controller,
    ControllerUnreachable,
    Refused,
    SchemaError,
)
from headrace.transferqueue.controller import Durability
from tests.transferqueue.plain import plain, put

Make = Callable[..., Any]


async def test_a_dead_controller_is_an_error_within_the_deadline(tmp_path: Path) -> None:
    """B03."""
    controller = Controller(tmp_path / "queue")
    await controller.start()
    client = await Client.connect(controller.address, holder="c", timeout_s=1.0)
    await client.create(plain())
    waiting = asyncio.create_task(client.lease("work", 1, timeout_s=300))
    await client.stats()
    await controller.close()
    with pytest.raises(ControllerUnreachable, match=r"has been silent for 1 s"):
        await waiting
    await client.close()
    with pytest.raises(ControllerUnreachable, match="is it running"):
        await Client.connect(controller.address, holder="c", timeout_s=0.3)


async def test_a_restarted_controller_does_not_pretend_to_know_its_old_clients(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/queue.ipc"
    async with Controller(tmp_path / "a", address):
        client = await Client.connect(address, holder="c")
        await client.create(plain())
    async with Controller(tmp_path / "b", address):
        with pytest.raises(ControllerUnreachable, match="the controller was restarted; connect again"):
            await client.stats()
        await client.close()


async def test_an_address_is_free_once_its_server_has_closed(tmp_path: Path) -> None:
    """ZeroMQ lets go of it in a thread of its own."""
    address = "tcp://127.0.0.1:*"
    for life in range(10):
        async with Controller(tmp_path / str(life), address) as controller:
            address = controller.address


async def test_bytes_of_a_stranger_are_counted_and_do_nothing(controller: Controller, connect: Make) -> None:
    """B10, before there are keys."""
    client = await connect("c")
    await client.create(plain())
    stranger = zmq.Context.instance().socket(zmq.DEALER)
    stranger.connect(controller.address)
    for frames in ([b"cos\nsystem\n(S'true'\ntR."], [b""], [b"\xc1" * 50], [b"a", b"b"], [b"\x91" * 5000]):
        stranger.send_multipart(frames)
    stranger.send(b"\x94\x01\x01\xa5stats\x80")
    reply = await asyncio.to_thread(stranger.recv)
    assert b"ControllerUnreachable" in reply
    stranger.close(0)
    stats = await client.stats()
    assert (stats.malformed, stats.clients, stats.waiting) == (6, 1, 0)
    with pytest.raises(SchemaError, match="want is 0"):
        await client.lease("work", 0, timeout_s=1)


async def test_a_request_that_is_sent_twice_is_done_once(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain())
    await put(client, [1, 2])
    connection = client._connection
    number, future = connection._post("lease", {"task": "work", "want": 1, "version": None, "timeout_s": 5.0})
    connection._port.send([connection._sent[number]])
    assert (await future)["table"] == "plain"
    connection._forget(number)
    assert (await client.stats()).tables["plain"].tasks["work"].leased == 1


async def test_a_request_that_was_lost_is_sent_again_by_the_pulse(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain())
    connection, send = client._connection, client._connection._port.send
    connection._port.send = lambda frames: False
    connection.quicken(0.05)
    asked = asyncio.create_task(client.stats())
    await asyncio.sleep(0)
    connection._port.send = send
    assert (await asked).clients == 1


async def test_clients_beside_the_controller_need_no_network(tmp_path: Path) -> None:
    async with (
        Controller(tmp_path / "queue", "inproc://beside") as controller,
        await Client.connect(controller.address, holder="c") as client,
    ):
        await client.create(plain())
        await put(client, [3])
        assert (await client.lease("work", 1, timeout_s=60)).rows["x"][0].tolist() == [3, 3, 3]


async def test_nothing_is_left_after_the_controller_has_closed(tmp_path: Path) -> None:
    directory = Path("/dev/shm") / f"headrace-test-{os.getpid()}"
    async with Controller(directory, f"ipc://{tmp_path}/q") as controller:
        client = await Client.connect(controller.address, holder="c")
        await client.create(plain())
        await put(client, [1])
        assert [path.suffix for path in directory.iterdir()] == [".arrows"]
        lease = await client.lease("work", 1, timeout_s=60)
    await controller.closed()
    assert not directory.exists()
    assert lease.rows["x"][0].tolist() == [1]
    client._connection.close(ControllerUnreachable("test ends"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("durability", ["memory", "disk"])
async def test_a_controller_that_cannot_bind_leaves_no_directory(
    controller: Controller, tmp_path: Path, durability: Durability
) -> None:
    with pytest.raises(Refused, match="cannot bind"):
        await Controller(tmp_path / "second", controller.address, durability=durability).start()
    assert not (tmp_path / "second").exists()


async def test_an_address_beyond_this_machine_is_refused(tmp_path: Path) -> None:
    for address in ("tcp://0.0.0.0:*", "tcp://10.0.0.1:5555", "udp://127.0.0.1:1"):
        with pytest.raises(Refused, match="is not local"):
            Controller(tmp_path, address)
