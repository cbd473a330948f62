"""What strangers can do: nothing, and it is counted."""

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
import zmq

from headrace.transferqueue import (
    Client,
    Column,
    Controller,
    ControllerUnreachable,
    QueueError,
    Refused,
    StorageUnit,
    TableSpec,
    Task,
    WireError,
)
from headrace.transferqueue.link.connection import Connection
from headrace.transferqueue.link.keys import make_keys
from headrace.transferqueue.link.wire import pack, pack_ints, unpack, write_reply, write_request
from headrace.transferqueue.payload.remote import RemoteReader
from headrace.transferqueue.payload.segments import Reference

Make = Callable[..., Any]


def table() -> TableSpec:
    columns = (Column(name="x", dtype="list<int32>"), Column(name="y", dtype="float64"))
    return TableSpec(
        name="plain", columns=columns, tasks=(Task(name="work", reads=("x",), writes=("y",)),), lease_s=3600
    )


async def counted(client: Client, at_least: int) -> int:
    """Refusals so far, asked for until they are `at_least` that many, within a deadline."""
    async with asyncio.timeout(60):
        while (seen := (await client.stats()).malformed) < at_least:
            pass
    return seen


async def test_a_holder_of_the_key_is_let_in_and_nobody_else_is_heard(tmp_path: Path) -> None:
    """B10: no byte of the stranger's message is read."""
    keys = tmp_path / "keys"
    other = tmp_path / "other"
    make_keys(other)
    async with (
        Controller(tmp_path / "q", keys=keys) as controller,
        await Client.connect(controller.address, holder="friend", keys=keys) as friend,
    ):
        for key in (None, other):
            with pytest.raises(ControllerUnreachable):
                await Client.connect(controller.address, holder="stranger", timeout_s=0.3, keys=key)
        assert await counted(friend, 2) >= 2
        assert (await friend.stats()).clients == 1


async def test_bytes_that_are_not_our_zeromq_are_refused_and_counted(
    controller: Controller, connect: Make
) -> None:
    friend = await connect("friend")
    host, port = controller.address.removeprefix("tcp://").split(":")
    greeting = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x00" + b"PLAIN".ljust(20, b"\0") + bytes(32)
    for garbage in (greeting, b"GET / HTTP/1.1\r\nHost: queue\r\n\r\n"):
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(garbage)
            assert await counted(friend, 1) == 1
    assert (await friend.stats()).clients == 1


def test_keys_are_their_owners_alone(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys")
    files = sorted((tmp_path / "keys").iterdir())
    assert [(file.name, file.stat().st_mode & 0o777) for file in files] == [
        ("client.key", 0o600),
        ("server.key", 0o600),
    ]
    before = [file.read_bytes() for file in files]
    make_keys(tmp_path / "keys")
    assert [file.read_bytes() for file in files] == before


async def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    make_keys(keys)
    (keys / "server.key").chmod(0o640)
    with pytest.raises(Refused, match=r"mode 640 .* chmod 600"):
        await Controller(tmp_path / "q", keys=keys).start()
    (keys / "client.key").write_bytes(b"short")
    with pytest.raises(Refused, match="holds 5 bytes; a key has 40"):
        await Client.connect("tcp://127.0.0.1:1", holder="c", keys=keys)
    with pytest.raises(Refused, match="no key of the run can be read"):
        await Client.connect("tcp://127.0.0.1:1", holder="c", keys=tmp_path / "none")


def examples() -> list[bytes]:
    """Requests of every kind, well formed, from a client that nobody knows."""
    uids = pack_ints(np.arange(3))
    block = {"segment": "aa-000000.arrows", "offset": 0, "length": 64, "checksum": 0, "known_same": False}
    cells = {"columns": ["x"], "groups": uids, "lease": None, "lengths": {}, "floors": None, "timeout_s": 0.0}
    operations: dict[str, dict[str, Any]] = {
        "put": {"table": "plain", "uids": uids, **cells, **block},
        "lease": {"task": "work", "want": 3, "version": None, "timeout_s": 0.0},
        "ack": {"table": "plain", "lease": 1, "uids": None},
        "release": {"table": "plain", "lease": 1, "uids": None, "reason": "r", "failed": True, "carry": []},
        "drop": {"table": "plain", "uids": uids, "reason": "fuzz"},
        "evict": {"holder": "friend", "reason": "fuzz"},
        "create": {"spec": table().to_wire()},
        "publish": {"policy": "actor", "version": 1, "checksum": "c"},
        "end": {"table": "plain"},
        "goodbye": {},
        "stats": {},
    }
    return [write_request(n, 0, name, fields) for n, (name, fields) in enumerate(operations.items())]


def mutated(example: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    if kind == 1:
        return example[: chance.randrange(len(example))]
    data = bytearray(example)
    for _ in range(chance.randrange(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data) if kind == 2 else bytes(data) + chance.randbytes(chance.randrange(50))


@pytest.mark.slow
async def test_a_hundred_thousand_fuzzed_messages_crash_nothing_grow_nothing_and_do_nothing(
    controller: Controller, connect: Make
) -> None:
    friend = await connect("friend")
    await friend.create(table())
    await friend.put("plain", [0, 1, 2], {"x": [[1], [2], [3]]}, groups=[0, 1, 2])
    lease = await friend.lease("work", 1, timeout_s=60)
    seeds, chance = examples(), random.Random(0)
    before = (await friend.stats()).tables["plain"]
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.connect(controller.address)
    try:
        resident = 0
        for sent in range(0, 100_000, 500):
            for number in range(500):
                frames = [mutated(chance.choice(seeds), chance)]
                frames += [chance.randbytes(5) for _ in range(3) if number % 50 == 0]
                stranger.send_multipart(frames)
            await counted(friend, sent + 500)
            while stranger.poll(0):
                stranger.recv_multipart()
            if sent == 20_000:
                resident = psutil.Process().memory_info().rss
        stats = await friend.stats()
    finally:
        stranger.close(0)
        context.term()
    after = stats.tables["plain"]
    assert stats.malformed == 100_000
    assert (stats.clients, list(stats.tables), stats.policies, stats.waiting) == (1, ["plain"], {}, 0)
    assert (after.tasks, after.created, after.ended) == (before.tasks, before.created, before.ended)
    assert psutil.Process().memory_info().rss - resident < 16 << 20
    await friend.put("plain", lease.rows.uids, {"y": [1.0]}, lease=lease)
    await friend.ack(lease)


@pytest.mark.slow
async def test_a_storage_unit_answers_fuzzed_messages_with_nothing_of_its_files(
    controller: Controller, tmp_path: Path
) -> None:
    outside = tmp_path / "secret.arrows"
    outside.write_bytes(b"secret")
    unit = StorageUnit(tmp_path / "b", controller.address, node="b")
    await unit.start()
    names = ["aa-000000.arrows", "../secret.arrows", "incarnation", "/etc/passwd", "aa-000000.arrows/x"]
    chance, context = random.Random(2), zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.connect(unit.address)
    try:
        for number in range(100_000):
            size = chance.choice([1, -1, 0, 6, 1 << 40])
            good = pack([number, chance.choice(names), chance.choice([0, -1, (1 << 64) - 1]), size])
            stranger.send(good if number % 2 else mutated(good, chance))
            if number % 200 == 0:
                await asyncio.sleep(0)
            while stranger.poll(0):
                assert stranger.recv_multipart()[1] == b""
        stranger.send(pack([100_000, names[0], 0, 1]))
        last = None
        async with asyncio.timeout(60):
            while last != 100_000:
                await asyncio.sleep(0)
                while stranger.poll(0):
                    head, data = stranger.recv_multipart()
                    last = unpack(head)[0]
                    assert data == b""
        client = await Client.connect(controller.address, holder="w", node="b")
        await client.create(table())
        await client.put("plain", [1], {"x": [[1]]}, groups=[1])
        async with await Client.connect(controller.address, holder="r") as reader:
            assert (await reader.lease("work", 1, timeout_s=60)).rows["x"][0].tolist() == [1]
        await client.close()
    finally:
        stranger.close(0)
        context.term()
        await unit.close()


async def test_fuzzed_requests_of_a_known_client_are_errors_and_nothing_is_lost(
    controller: Controller, connect: Make
) -> None:
    friend = await connect("friend")
    await friend.create(table())
    await friend.put("plain", [0, 1, 2], {"x": [[1], [2], [3]]}, groups=[0, 1, 2])
    seeds, chance = examples()[:4], random.Random(1)
    context = zmq.Context()
    odd = context.socket(zmq.DEALER)
    odd.connect(controller.address)
    try:
        odd.send(write_request(1000, 0, "hello", {"holder": "odd"}))
        for number in range(3000):
            odd.send(mutated(chance.choice(seeds), chance))
            if number % 100 == 0:
                await friend.stats()
        await counted(friend, 1000)
    finally:
        odd.close(0)
        context.term()
    stats = await friend.stats()
    assert (stats.clients, stats.tables["plain"].lost, stats.tables["plain"].rows) == (2, 0, 3)


@pytest.mark.slow
async def test_a_client_of_an_impostor_gets_errors_and_nothing_else(tmp_path: Path) -> None:
    """100,000 answers that are none: what is pending fails, and the next good answer counts."""
    context, chance = zmq.Context(), random.Random(3)
    impostor = context.socket(zmq.ROUTER)
    connection = Connection(
        f"tcp://127.0.0.1:{impostor.bind_to_random_port('tcp://127.0.0.1')}",
        timeout_s=30.0,
        context=None,
        on_lost=lambda leases: None,
        on_orphan=lambda body: None,
        held=lambda: [],
    )
    resident = failed = 0
    try:
        for round_ in range(200):
            asked = asyncio.create_task(connection.request("stats", {}))
            client, request = await asyncio.to_thread(impostor.recv_multipart)
            good = write_reply(unpack(request)[0], {"round": round_})
            for _ in range(500):
                impostor.send_multipart([client, mutated(good, chance)])
            impostor.send_multipart([client, good])
            try:
                assert isinstance(await asked, dict | list | str | int | float | bytes | None)
            except QueueError:
                failed += 1
            if round_ == 40:
                resident = psutil.Process().memory_info().rss
        answer = None
        while answer != "good":
            asked = asyncio.create_task(connection.request("stats", {}))
            client, request = await asyncio.to_thread(impostor.recv_multipart)
            impostor.send_multipart([client, write_reply(unpack(request)[0], "good")])
            with suppress(WireError):
                answer = await asked
        assert failed > 100
        assert psutil.Process().memory_info().rss - resident < 16 << 20
    finally:
        connection.close(ControllerUnreachable("the test ends"))
        impostor.close(0)
        context.term()


@pytest.mark.slow
async def test_a_reader_of_an_impostor_unit_waits_for_its_answer_and_takes_no_other() -> None:
    context, chance = zmq.Context(), random.Random(4)
    impostor = context.socket(zmq.ROUTER)
    address = f"tcp://127.0.0.1:{impostor.bind_to_random_port('tcp://127.0.0.1')}"
    reader = RemoteReader(timeout_s=30.0, context=None, keys=None)
    batch = pa.record_batch([pa.array([7], pa.int64())], ["x"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    block = sink.getvalue().to_pybytes()
    try:
        for round_ in range(200):
            place = Reference(segment=f"aa-{round_:06d}.arrows", offset=0, length=len(block), node="b")
            asked = asyncio.create_task(reader.read(place, address))
            client, request = await asyncio.to_thread(impostor.recv_multipart)
            head = pack([unpack(request)[0] + 1000, ""])
            for _ in range(500):
                impostor.send_multipart([client, mutated(head, chance), chance.randbytes(8)])
            impostor.send_multipart([client, pack([unpack(request)[0], ""]), block])
            assert (await asked).to_pydict() == {"x": [7]}
    finally:
        reader.close()
        impostor.close(0)
        context.term()
