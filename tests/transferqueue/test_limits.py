"""Who waits in a queue, for what and how long: rooms that are full, gates that are shut, ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import (
    EndOfData,
    SchemaError,
    StepRefused,
    WaitTimeout,
)
from tests.transferqueue.plain import plain, put

Make = Callable[..., Any]


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


async def test_the_end_of_the_data_reaches_who_waits(connect: Make) -> None:
    producer, consumer = await connect("p"), await connect("c")
    await producer.create(plain())
    waiting = asyncio.create_task(consumer.lease("work", 1, timeout_s=60))
    await consumer.stats()
    await producer.end("plain")
    with pytest.raises(EndOfData):
        await waiting
