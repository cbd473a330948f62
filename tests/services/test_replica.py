"""The runtime of one replica, over a real queue, with services of a few lines."""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from headrace.services import replica
from headrace.services.base import Context, Output
from headrace.services.errors import ReplicaFailed, TransformError, WeightsError, first_error
from headrace.services.faults import damage
from headrace.services.replica import GIVE_UP_AFTER
from headrace.services.weights import WeightStore
from headrace.transferqueue import Rows, Task
from tests.services.bench import NUMBERS, put_numbers
from tests.services.driven import (
    HALF,
    Bed,
    Begun,
    Double,
    Halving,
    Held,
    Raising,
    Sorted,
    Store,
    Versioned,
    bed,
    checked,
    doubled,
)


async def test_rows_are_written_and_acknowledged_until_the_data_ends(tmp_path: Path) -> None:
    service = Double()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=5)
        await b.replica.run()
        assert await checked(b.client) == {x: 2 * x for x in range(10)}
        assert sorted(uid for call in service.calls for uid in call) == list(range(10))
        assert b.report.states == ["loading", "ready", "stopped"]
        assert service.closed == 1
        last = b.report.lines[-1][1]
        assert (last["rows_done"], last["in_flight"]) == (10.0, 0.0)


async def test_a_service_that_blocks_the_event_loop_shows_in_its_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A32: half a second in which nothing else runs, and a report due in the first 0.01 s of it."""

    class Blocking(Double):
        async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
            time.sleep(0.5)
            yield doubled(rows, rows.uids.tolist())

    monkeypatch.setattr(replica, "REPORT_EVERY_S", 0.01)
    async with bed(Blocking(), tmp_path) as b:
        await put_numbers(b.client, groups=2)
        await b.replica.run()
        assert max(line["loop_lag_s"] for _, line in b.report.lines if "loop_lag_s" in line) > 0.4


async def test_a_poisonous_row_is_retried_alone_and_costs_its_neighbours_nothing(tmp_path: Path) -> None:
    service = Raising({5}, ValueError("bad row"))
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=4)
        await b.replica.run()
        assert service.calls == [[0, 1, 2, 3, 4, 5, 6, 7], [5], [5]]
        table = (await b.client.stats()).tables["numbers"]
        assert table.quarantine == {5: "double: ValueError: bad row"}
        assert await checked(b.client) == {x: 2 * x for x in (0, 1, 2, 3, 4, 6, 7)}
        assert [e["groups"] for e in b.report.of("process_failed")] == [[0, 1, 2, 3], [2], [2]]


async def test_a_service_that_says_it_failed_hands_back_and_ends_at_once(tmp_path: Path) -> None:
    service = Raising(set(range(8)), ReplicaFailed("60% of scorings raised"))
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=4)
        with pytest.raises(ExceptionGroup) as raised:
            await b.replica.run()
        assert str(first_error(raised.value)) == "60% of scorings raised"
        assert len(service.calls) == 1
        back = await b.client.lease("double", 8, timeout_s=60)
        assert back.rows.attempts.tolist() == [2] * 8
        assert b.report.states[-1] == "failed"
        assert b.report.of("state")[-1]["reason"] == "ReplicaFailed: 60% of scorings raised"


async def test_a_replica_gives_up_after_eight_groups_that_fail_in_a_row(tmp_path: Path) -> None:
    assert GIVE_UP_AFTER == 8
    service = Raising(set(range(40)), OSError("disk full"))
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=20)
        with pytest.raises(ExceptionGroup) as raised:
            await b.replica.run()
        assert str(first_error(raised.value)) == "disk full"
        assert len(b.report.of("process_failed")) >= 8
        await b.nothing_is_leased()
        assert service.closed == 1


async def test_rows_that_process_forgot_are_handed_back_with_the_reason(tmp_path: Path) -> None:
    class Forgetful(Double):
        async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
            if left := [uid for uid in rows.uids.tolist() if uid != 3]:
                yield doubled(rows, left)

    async with bed(Forgetful(), tmp_path) as b:
        await put_numbers(b.client, groups=2)
        await b.replica.run()
        (reason,) = (await b.client.stats()).tables["numbers"].quarantine.values()
        assert "process() ended without an output for rows [3]" in reason


async def test_a_cancelled_replica_hands_back_what_it_holds_without_counting_an_attempt(
    tmp_path: Path,
) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=4)
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        assert await b.figures() == (4, 4, 0)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert await b.figures() == (8, 0, 0)
        lease = await b.client.lease("double", 8, timeout_s=60)
        assert lease.rows.attempts.tolist() == [1] * 8
        assert (service.interrupted, service.closed) == (1, 1)
        assert b.report.states[-1] == "stopped"


async def test_rows_whose_work_was_cancelled_before_it_began_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another group's failure ends the replica in the moment in which a lease comes."""
    service, cancelled = Double(), asyncio.Event()

    def cancel() -> None:
        for task in asyncio.all_tasks():
            if inspect.getcoroutinestate(coroutine := cast(Any, task.get_coro())) == inspect.CORO_CREATED:
                assert coroutine.__name__ == "_work"
                task.cancel()
        cancelled.set()

    def leased(rows: Rows) -> list[Rows]:
        asyncio.get_running_loop().call_soon(cancel)
        return [rows]

    monkeypatch.setattr(replica, "split", leased)
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=4)
        running = asyncio.create_task(b.replica.run())
        await cancelled.wait()
        running.cancel()
        await asyncio.wait({running})
        assert (service.calls, service.closed) == ([], 1)
        assert await b.figures() == (8, 0, 0)


async def test_what_was_begun_of_a_row_goes_with_it_to_its_next_lease(tmp_path: Path) -> None:
    service = Begun()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=2)
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        running.cancel()
        await asyncio.wait({running})
        lease = await b.client.lease("double", 4, timeout_s=60.0)
        assert lease.rows.uids.tolist() == [0, 1, 2, 3]
        assert list(lease.rows.carries) == [{"half": 0}, None, {"half": 1}, None]


async def test_no_more_rows_are_in_flight_than_there_is_capacity_for(tmp_path: Path) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=8)
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        assert await b.figures() == (12, 4, 0)
        service.go.set()
        await running
        assert max(map(len, service.calls)) == 4
        assert await checked(b.client) == {x: 2 * x for x in range(16)}


async def test_a_lost_lease_is_said_and_the_replica_goes_on(tmp_path: Path) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=4)
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        await b.client.drop("numbers", service.calls[0], "not wanted")
        service.go.set()
        await running
        (lost,) = b.report.of("lease_lost")
        assert "does not hold rows" in lost["reason"] or "has ended" in lost["reason"]
        assert service.interrupted == 1
        assert await checked(b.client) == {x: 2 * x for x in (4, 5, 6, 7)}


async def test_a_drained_replica_finishes_what_it_has_and_takes_no_more(tmp_path: Path) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=4)
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        b.replica.drain()
        service.go.set()
        await running
        assert service.calls == [[0, 1, 2, 3]]
        assert await b.figures() == (4, 0, 0)
        assert b.report.states == ["loading", "ready", "draining", "stopped"]


async def test_a_setup_that_raises_ends_the_replica_before_it_takes_a_row(tmp_path: Path) -> None:
    class Broken(Double):
        async def setup(self, context: Context) -> None:
            raise FileNotFoundError("no model") from KeyError("actor")

    service = Broken()
    async with bed(service, tmp_path) as b:
        with pytest.raises(FileNotFoundError, match="no model"):
            await b.replica.run()
        assert b.report.states == ["loading", "failed"]
        assert b.report.of("state")[-1]["reason"] == "FileNotFoundError: no model <- KeyError: 'actor'"
        assert service.closed == 1


async def test_a_row_is_asked_for_only_at_a_version_that_is_loaded(tmp_path: Path) -> None:
    service = Versioned()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=1)
        running = asyncio.create_task(b.replica.run())
        assert b.replica.lifecycle.state != "ready"
        await b.client.publish("actor", 0, "sum")
        await running
        assert service.loaded == [0]
        metrics = [line for _, line in b.report.lines if "sync/version_confirmed" in line]
        assert [(m["sync/version_confirmed"], m["sync/bytes"]) for m in metrics] == [(0.0, 12.0)]


async def test_a_version_that_was_pruned_is_passed_over_for_the_next(tmp_path: Path) -> None:
    service, pruned, loop = Versioned(), asyncio.Event(), asyncio.get_running_loop()
    store = Store(gone=0, on_gone=lambda: loop.call_soon_threadsafe(pruned.set))
    async with bed(service, tmp_path, store) as b:
        await put_numbers(b.client, groups=1)
        await b.client.publish("actor", 0, "sum")
        running = asyncio.create_task(b.replica.run())
        await pruned.wait()
        await b.client.publish("actor", 1, "sum")
        await running
        assert service.loaded == [1]
        metrics = [line for _, line in b.report.lines if "sync/version_confirmed" in line]
        assert [(m["sync/version_confirmed"], m["sync/failures"]) for m in metrics] == [(1.0, 1.0)]


async def test_weights_that_are_not_those_published_end_the_replica(tmp_path: Path) -> None:
    async with bed(Versioned(), tmp_path, Store(error=WeightsError("sha256 differs"))) as b:
        await b.client.publish("actor", 0, "sum")
        with pytest.raises(ExceptionGroup) as raised:
            await b.replica.run()
        assert str(first_error(raised.value)) == "sha256 differs"
        assert b.report.states == ["loading", "failed"]


class Keeping(Versioned, Held):
    """Stands in `process`, and takes whatever it is given."""


async def test_a_service_is_given_no_version_whose_bytes_are_not_those_published(tmp_path: Path) -> None:
    service, store = Keeping(), WeightStore(tmp_path / "weights")
    checksums = [store.write("actor", version, {"w": torch.full((4,), float(version))}) for version in (0, 1)]
    damage(store.folder("actor").path(1))
    async with bed(service, tmp_path, store) as b:
        await put_numbers(b.client, groups=4)
        await b.client.publish("actor", 0, checksums[0])
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        await b.client.publish("actor", 1, checksums[1])
        with pytest.raises(ExceptionGroup) as raised:
            await running
        assert isinstance(first_error(raised.value), WeightsError)
        assert service.loaded == [0]
        assert await b.figures() == (8, 0, 0)


class Refusing(Versioned, Held):
    """Takes version 0 alone."""

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        if version:
            raise ValueError("weights do not fit")
        await super().load(version, weights)


async def test_a_replica_that_fails_to_load_serves_no_more_and_its_rows_go_back(tmp_path: Path) -> None:
    service = Refusing()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=4)
        await b.client.publish("actor", 0, "sum")
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        await b.client.publish("actor", 1, "sum")
        with pytest.raises(ExceptionGroup) as raised:
            await running
        assert str(first_error(raised.value)) == "weights do not fit"
        assert (service.version, service.loaded, service.calls) == (0, [0], [[0, 1, 2, 3]])
        assert b.report.states == ["loading", "ready", "failed"]
        assert await b.figures() == (8, 0, 0)


async def test_rows_may_be_acknowledged_as_they_are_or_dropped_for_every_task(tmp_path: Path) -> None:
    """The group of rows 4 and 5 goes on with one of them."""
    silent = Task(name="double", reads=("x",))
    reader = Task(name="check", reads=("x",), needs_full_group=True)
    table = replace(NUMBERS, columns=NUMBERS.columns[:1], tasks=(silent, reader))
    async with bed(Sorted(), tmp_path, table=table) as b:
        await put_numbers(b.client, groups=3)
        await b.replica.run()
        stats = (await b.client.stats()).tables["numbers"]
        assert (stats.tasks["double"].done, stats.dropped) == (3, {"odd": 3})
        lease = await b.client.lease("check", 10, timeout_s=60.0)
        assert lease.rows.uids.tolist() == [0, 2, 4]
        assert b.report.of("process_failed") == b.report.of("lease_lost") == []


async def running_while_two_are_dropped(b: Bed, service: Held) -> asyncio.Task[None]:
    """The replica, standing in `process` with four rows of which two have just left the table."""
    await put_numbers(b.client, groups=2)
    running = asyncio.create_task(b.replica.run())
    await service.inside.wait()
    await b.client.drop("numbers", [1, 2], "not wanted")
    return running


async def test_rows_that_another_node_drops_are_passed_over_and_the_others_written(tmp_path: Path) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        running = await running_while_two_are_dropped(b, service)
        service.go.set()
        await running
        assert await checked(b.client) == {0: 0, 3: 6}
        assert (await b.figures())[1] == 0


async def test_rows_that_another_node_drops_do_not_keep_the_others_from_going_back(tmp_path: Path) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        running = await running_while_two_are_dropped(b, service)
        running.cancel()
        await asyncio.wait({running})
        assert await b.figures() == (2, 0, 0)


async def test_a_service_reads_what_transforms_make_of_its_rows(tmp_path: Path) -> None:
    """Row 4 and the other of its group go back, and into quarantine at last, with the function's reason."""
    async with bed(Halving(), tmp_path, transforms=(HALF,)) as b:
        await put_numbers(b.client, groups=3)
        await b.replica.run()
        assert await checked(b.client) == {0: 0, 1: 0, 2: 1, 3: 1}
        quarantine = (await b.client.stats()).tables["numbers"].quarantine
        assert list(quarantine) == [4, 5]
        assert quarantine[4].endswith("half raised on row 4 <- ArithmeticError: four is not to be halved")


async def test_a_transform_that_is_not_there_keeps_a_replica_from_starting(tmp_path: Path) -> None:
    lost = replace(HALF, function=f"{__name__}:halved")
    async with bed(Halving(), tmp_path, transforms=(lost,)) as b:
        with pytest.raises(TransformError, match="has no function 'halved'"):
            await b.replica.run()
        assert b.report.states == ["loading", "failed"]
