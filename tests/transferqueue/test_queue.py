"""The whole queue over a real socket: clients, controller, shared memory."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from headrace.transferqueue import (
    BlockingClient,
    Client,
    Column,
    Controller,
    ControllerUnreachable,
    EndOfData,
    LeaseLost,
    PayloadError,
    Refused,
    RowsGone,
    RowsLost,
    SchemaError,
    StepRefused,
    TableSpec,
    Task,
    UnknownName,
    WaitTimeout,
    WriteConflict,
)
from headrace.transferqueue.controller import Durability

Make = Callable[..., Any]


def plain(**changes: Any) -> TableSpec:
    columns = (Column(name="x", dtype="list<int32>"), Column(name="y", dtype="float64"))
    tasks = (Task(name="work", reads=("x",), writes=("y",)), Task(name="watch", reads=("y",)))
    return TableSpec(name="plain", columns=columns, tasks=tasks, **changes)


async def put(client: Client, uids: list[int], **more: Any) -> None:
    cells = [np.full(uid % 5, uid, np.int32) for uid in uids]
    await client.put("plain", uids, {"x": cells}, groups=uids, **more)


async def test_rows_go_from_producer_to_worker_to_watcher(connect: Make) -> None:
    producer, worker, watcher = await connect("p"), await connect("w"), await connect("v")
    await producer.create(plain())
    await put(producer, [1, 2, 3])
    lease = await worker.lease("work", 2, timeout_s=60)
    assert lease.rows.uids.tolist() == [1, 2]
    assert lease.rows.attempts.tolist() == [1, 1]
    assert [cell.tolist() for cell in lease.rows["x"]] == [[1], [2, 2]]
    await worker.put("plain", lease.rows.uids, {"y": [0.5, 1.5]}, lease=lease)
    await worker.ack(lease)
    seen = await watcher.lease("watch", 10, timeout_s=60)
    assert seen.rows["y"].tolist() == [0.5, 1.5]
    await watcher.ack(seen)
    table = (await watcher.stats()).tables["plain"]
    assert (table.rows, table.finished, table.lost, table.created) == (1, 2, 0, 3)


async def test_a_lease_that_goes_on_without_some_rows_is_told_from_one_that_has_ended(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain())
    await put(client, [1, 2, 3])
    lease = await client.lease("work", 3, timeout_s=60)
    await client.drop("plain", [2], "not wanted")
    with pytest.raises(RowsLost, match=r"does not hold rows \[2\]; nothing was changed"):
        await client.put("plain", [1, 2, 3], {"y": [0.5, 1.0, 1.5]}, lease=lease)
    await client.put("plain", [1, 3], {"y": [0.5, 1.5]}, lease=lease, ack=True)
    with pytest.raises(LeaseLost, match="has ended") as ended:
        await client.put("plain", [2], {"y": [1.0]}, lease=lease)
    assert not isinstance(ended.value, RowsLost)


async def test_a_put_can_end_the_lease_of_its_rows_in_the_same_message(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain())
    await put(client, [1, 2])
    lease = await client.lease("work", 2, timeout_s=60)
    await client.put("plain", [2], {"y": [1.5]}, lease=lease, ack=True)
    tasks = (await client.stats()).tables["plain"].tasks
    assert (tasks["work"].done, tasks["work"].leased, tasks["watch"].ready) == (1, 1, 1)
    await client.put("plain", [1], {"y": [0.5]}, lease=lease, ack=True)
    with pytest.raises(LeaseLost):
        await client.ack(lease)
    with pytest.raises(SchemaError, match="pass lease="):
        await client.put("plain", [1], {"y": [0.5]}, ack=True)


async def test_a_trainer_commits_steps_and_frees_their_payload(
    connect: Make, spec: Make, prompts: Make
) -> None:
    client = await connect("all")
    await client.create(spec(units_per_step=1, staleness=1.0))
    await client.put("samples", range(4), prompts(4), groups=[0, 0, 1, 1])
    lease = await client.lease("roll", 4, version=0, timeout_s=60)
    cells = [np.full(3, 0, np.int32)] * 4
    await client.put("samples", lease.rows.uids, {"response": cells, "versions": cells}, lease=lease)
    await client.ack(lease)
    await client.put("samples", range(4), {"reward": [1.0, 0.0, 1.0, 1.0]})
    for step in (0, 1):
        batch = await client.lease("learn", 2, version=step, timeout_s=60)
        assert batch.rows.versions.tolist() == [0, 0]
        await client.commit("learn", step, batch.rows.uids)
        await client.commit("learn", step, batch.rows.uids)
        await client.publish("actor", step + 1, f"sum {step}")
    table = (await client.stats()).tables["samples"]
    assert table.staleness_trained == {0: 2, 1: 2}
    assert (table.trained, table.duplicated, table.lost, table.violations) == (4, 0, 0, 0)
    assert table.rows == 4, "the score task has not acknowledged them"
    scores = await client.lease("score", 4, timeout_s=60)
    await client.ack(scores)
    table = (await client.stats()).tables["samples"]
    assert (table.rows, table.bytes, table.trained_length_mean) == (0, 0, 3.0)


async def test_an_early_consumer_costs_its_producer_nothing(connect: Make) -> None:
    """B04: the wait is the controller's, and the puts of others go through meanwhile."""
    producer, consumer = await connect("p"), await connect("c")
    await producer.create(plain())
    waiting = asyncio.create_task(consumer.lease("work", 4, timeout_s=60))
    for _ in range(3):
        await producer.stats()
    assert (await producer.stats()).waiting == 1
    await put(producer, [0])
    assert (await waiting).rows.uids.tolist() == [0]


async def test_a_full_table_holds_its_producer_until_there_is_room(connect: Make) -> None:
    """B05: capacity 8, put 8, put 4."""
    producer, consumer = await connect("p"), await connect("c")
    await producer.create(plain(max_rows=8))
    await put(producer, list(range(8)))
    with pytest.raises(WaitTimeout, match=r"it holds 8 of 8 rows .* most wait for task 'work' \(8 rows\)"):
        await put(producer, list(range(8, 12)), timeout_s=0.01)
    table = (await producer.stats()).tables["plain"]
    assert (table.rows, table.created) == (8, 8)
    blocked = asyncio.create_task(put(producer, list(range(8, 12)), timeout_s=60))
    await consumer.drop("plain", [0, 1, 2], "make room")
    assert not blocked.done()
    await consumer.drop("plain", [3], "make room")
    await blocked
    assert (await producer.stats()).tables["plain"].rows == 8
    with pytest.raises(SchemaError, match="can never fit"):
        await put(producer, list(range(20, 29)))


async def test_producers_get_room_in_the_order_in_which_they_came(connect: Make) -> None:
    producer, other = await connect("p"), await connect("q")
    await producer.create(plain(max_rows=4))
    await put(producer, [0, 1, 2, 3])
    first = asyncio.create_task(put(producer, [10, 11, 12], timeout_s=60))
    await producer.stats()
    second = asyncio.create_task(put(other, [20], timeout_s=60))
    await other.stats()
    await producer.drop("plain", [0], "make room")
    assert (first.done(), second.done()) == (False, False)
    await producer.drop("plain", [1, 2, 3], "make room")
    await first
    await second


async def test_a_cell_is_written_once(connect: Make) -> None:
    """B08."""
    client = await connect("c")
    await client.create(plain())
    await put(client, [1, 2])
    await put(client, [1, 2])
    await client.put("plain", [2, 1], {"x": [np.array([2, 2], np.int32), np.array([1], np.int32)]})
    with pytest.raises(
        WriteConflict, match="column 'x' of table 'plain' is written already with other bytes"
    ):
        await client.put("plain", [1], {"x": [np.array([9], np.int32)]})
    await client.put("plain", [1], {"y": [float("nan")]})
    await client.put("plain", [1], {"y": [float("nan")]})
    assert (await client.stats()).tables["plain"].rows == 2


async def test_a_wrong_dtype_is_refused_at_the_door(connect: Make) -> None:
    """B07."""
    client = await connect("c")
    await client.create(plain())
    with pytest.raises(SchemaError, match="column 'y' is float64 and got an array of int64"):
        await client.put("plain", [1], {"y": np.array([1])}, groups=[1])


async def test_a_wait_in_vain_names_what_is_missing_and_who_owes_it(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain())
    with pytest.raises(WaitTimeout, match="its producer owes them"):
        await client.lease("work", 1, timeout_s=0.01)
    await put(client, [1, 2])
    lease = await client.lease("work", 1, timeout_s=60)
    await client.release(lease, reason="out of memory")
    with pytest.raises(WaitTimeout, match=r"2 rows lack 'y', owed by task 'work'"):
        await client.lease("watch", 1, timeout_s=0.01)
    again = await client.lease("work", 2, timeout_s=60)
    assert again.rows.attempts.tolist() == [2, 1]
    with pytest.raises(WaitTimeout, match="leased already: 2 by 'c'; last handed back: out of memory"):
        await client.lease("work", 1, timeout_s=0.01)


async def test_a_closed_gate_says_who_must_move(connect: Make, spec: Make, prompts: Make) -> None:
    client = await connect("c")
    await client.create(spec(units_per_step=1))
    await client.put("samples", [0, 1], prompts(2), groups=[0, 1])
    await client.lease("roll", 2, version=0, timeout_s=60)
    with pytest.raises(WaitTimeout, match=r"gate is closed .* at version 0: .* task 'learn' owes step 0"):
        await client.lease("roll", 1, version=0, timeout_s=0.01)


async def test_a_carry_reaches_the_next_lease(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain())
    await put(client, [1, 2])
    lease = await client.lease("work", 2, timeout_s=60)
    carry = {1: {"token_ids": np.array([4, 5], np.int32), "text": "half"}}
    await client.release(lease, reason="new weights", carry=carry, failed=False)
    lease = await client.lease("work", 2, timeout_s=60)
    first, second = lease.rows.carries
    assert first is not None and second is None
    assert (first["token_ids"].tolist(), first["text"]) == ([4, 5], "half")
    assert lease.rows.attempts.tolist() == [1, 1]


async def test_a_version_is_waited_for_and_only_grows(connect: Make) -> None:
    trainer, replica = await connect("t"), await connect("r")
    waiting = asyncio.create_task(replica.published("actor", after=-1, timeout_s=60))
    await trainer.publish("actor", 3, "abc")
    publication = await waiting
    assert (publication.version, publication.checksum) == (3, "abc")
    await trainer.publish("actor", 3, "abc")
    for version, checksum in ((3, "other"), (2, "abc")):
        with pytest.raises(StepRefused, match="does not follow it"):
            await trainer.publish("actor", version, checksum)
    with pytest.raises(WaitTimeout, match="no version of policy 'actor' after 3: the newest is 3"):
        await replica.published("actor", after=3, timeout_s=0.01)


async def test_a_table_that_is_declared_again_takes_over_its_limits(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain(max_rows=1))
    await put(client, [1])
    waiting = asyncio.create_task(put(client, [2]))
    await client.create(plain(max_rows=2))
    await waiting
    assert (await client.stats()).tables["plain"].rows == 2


async def test_a_table_is_made_once(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain())
    await client.create(plain())
    with pytest.raises(Refused, match="exists with another spec"):
        await client.create(plain(max_attempts=9))
    with pytest.raises(UnknownName, match="no task 'wrok'; there are: work, watch"):
        await client.lease("wrok", 1, timeout_s=1)
    with pytest.raises(UnknownName, match="no table 'other'; there are: plain"):
        await client.put("other", [1], {"x": [[1]]})


async def test_the_end_of_the_data_reaches_who_waits(connect: Make) -> None:
    producer, consumer = await connect("p"), await connect("c")
    await producer.create(plain())
    waiting = asyncio.create_task(consumer.lease("work", 1, timeout_s=60))
    await consumer.stats()
    await producer.end("plain")
    with pytest.raises(EndOfData):
        await waiting


async def test_an_evicted_client_is_shut_out_and_its_rows_go_on(connect: Make) -> None:
    zombie, supervisor = await connect("answers/0"), await connect("driver")
    await supervisor.create(plain())
    await put(supervisor, [1, 2])
    lease = await zombie.lease("work", 2, timeout_s=60)
    assert await supervisor.evict("answers/0", "its process died") == 2
    again = await supervisor.lease("work", 2, timeout_s=60)
    assert again.rows.attempts.tolist() == [2, 2]
    with pytest.raises(ControllerUnreachable, match="evicted"):
        await zombie.put("plain", lease.rows.uids, {"y": [0.0, 0.0]}, lease=lease)


async def test_a_client_that_closes_hands_its_rows_back_without_an_attempt(connect: Make) -> None:
    leaving, other = await connect("l"), await connect("o")
    await other.create(plain())
    await put(other, [1])
    await leaving.lease("work", 1, timeout_s=60)
    await leaving.close()
    assert (await other.lease("work", 1, timeout_s=60)).rows.attempts.tolist() == [1]
    with pytest.raises(ControllerUnreachable, match="is closed"):
        await leaving.stats()


async def test_a_cancelled_lease_takes_no_rows_with_it(connect: Make) -> None:
    impatient, other = await connect("i"), await connect("o")
    await other.create(plain())
    waiting = asyncio.create_task(impatient.lease("work", 1, timeout_s=60))
    await impatient.stats()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await put(other, [1])
    answered = asyncio.create_task(impatient.lease("work", 1, timeout_s=60))
    await asyncio.sleep(0)
    answered.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answered
    assert (await other.lease("work", 1, timeout_s=60)).rows.attempts.tolist() == [1]


async def test_leases_are_renewed_while_they_are_held(connect: Make) -> None:
    client = await connect("c")
    await client.create(plain(lease_s=1.0))
    await put(client, [1])
    lease = await client.lease("work", 1, timeout_s=60)
    with pytest.raises(WaitTimeout):
        await client.lease("work", 1, timeout_s=2.0)
    await client.put("plain", [1], {"y": [1.0]}, lease=lease)
    await client.ack(lease)


async def test_a_consumer_killed_with_kill_9_gives_its_rows_back(
    controller: Controller, connect: Make
) -> None:
    """B01."""
    client = await connect("c")
    await client.create(plain(lease_s=1.5))
    await put(client, [1, 2, 3, 4])
    code = (
        "import sys; from headrace.transferqueue import BlockingClient\n"
        "queue = BlockingClient.connect(sys.argv[1], holder='victim')\n"
        "print(len(queue.lease('work', 4, timeout_s=60)), flush=True); sys.stdin.read()"
    )
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, controller.address, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert victim.stdout is not None
    assert await victim.stdout.readline() == b"4\n"
    victim.send_signal(signal.SIGKILL)
    await victim.wait()
    lease = await client.lease("work", 4, timeout_s=60)
    assert lease.rows.uids.tolist() == [1, 2, 3, 4]
    assert lease.rows.attempts.tolist() == [2, 2, 2, 2]
    with pytest.raises(WaitTimeout):
        await client.lease("work", 4, timeout_s=0.01)
    await client.put("plain", lease.rows.uids, {"y": [0.0] * 4}, lease=lease)


async def test_a_lease_that_expired_writes_nothing(connect: Make) -> None:
    slow, other = await connect("slow"), await connect("o")
    await other.create(plain(lease_s=1.0))
    await put(other, [1])
    lease = await slow.lease("work", 1, timeout_s=60)
    slow._connection._stop_timer()
    taken = await other.lease("work", 1, timeout_s=60)
    for refused in (slow.put("plain", [1], {"y": [9.0]}, lease=lease), slow.ack(lease)):
        with pytest.raises(LeaseLost, match="has ended"):
            await refused
    await other.put("plain", [1], {"y": [1.0]}, lease=taken)


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


async def test_the_blocking_client_is_the_same_client(controller: Controller) -> None:
    def use() -> tuple[int, list[int]]:
        with BlockingClient.connect(controller.address, holder="b") as queue:
            queue.create(plain())
            queue.put("plain", [5], {"x": [[1, 2]]}, groups=[5])
            lease = queue.lease("work", 1, timeout_s=60)
            with pytest.raises(RowsGone):
                queue.put("plain", [6], {"y": [0.0]})
            return queue.stats().clients, lease.rows["x"][0].tolist()

    assert await asyncio.to_thread(use) == (1, [1, 2])


async def test_a_put_that_comes_again_as_its_rows_leave_is_told_that_they_left(
    connect: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their file may be gone before the cells in it were compared."""
    producer, worker = await connect("p"), await connect("w")
    await producer.create(TableSpec(name="plain", columns=plain().columns, tasks=plain().tasks[:1]))
    await put(producer, [1])

    async def pieces(answer: Any) -> Any:
        lease = await worker.lease("work", 1, timeout_s=60)
        await worker.put("plain", [1], {"y": [0.5]}, lease=lease, ack=True)
        raise PayloadError("segment cannot be read")

    monkeypatch.setattr(producer._reader, "pieces", pieces)
    with pytest.raises(RowsGone, match="have been and gone"):
        await put(producer, [1])
