"""The whole queue over a real socket: clients, controller, shared memory."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace.transferqueue import (
    BlockingClient,
    Controller,
    LeaseLost,
    PayloadError,
    Refused,
    RowsGone,
    RowsLost,
    SchemaError,
    TableSpec,
    UnknownName,
    WriteConflict,
)
from tests.transferqueue.plain import plain, put

Make = Callable[..., Any]


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
