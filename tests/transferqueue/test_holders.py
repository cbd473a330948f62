"""Those who hold rows and go: closed, evicted, cancelled, killed, late."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import (
    Controller,
    ControllerUnreachable,
    LeaseLost,
    WaitTimeout,
)
from tests.transferqueue.plain import plain, put

Make = Callable[..., Any]


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
