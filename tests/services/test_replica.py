"""The runtime of one replica, over a real queue, with services of a few lines."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headrace.services.base import Context, Output
from headrace.services.errors import ReplicaFailed, TransformError, WeightsError, WeightsGone, first_error
from headrace.services.options import TransformOptions
from headrace.services.replica import GIVE_UP_AFTER, Replica
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client, Rows, TableSpec, Task
from tests.services.bench import NUMBERS, Remembered, context, put_numbers, queue


class Double:
    """Writes y = 2x, one output for all rows of a lease."""

    capacity = 8

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.closed = 0

    async def setup(self, context: Context) -> None: ...

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        self.calls.append(rows.uids.tolist())
        yield doubled(rows, rows.uids.tolist())

    async def close(self) -> None:
        self.closed += 1


def doubled(rows: Rows, uids: list[int]) -> Output:
    x = dict(zip(rows.uids.tolist(), np.asarray(rows["x"]).tolist(), strict=True))
    return Output(uids=np.array(uids), columns={"y": np.array([2 * x[uid] for uid in uids])})


class Raising(Double):
    """Raises `error` for a lease that holds one of `poison`, once the other rows are written."""

    def __init__(self, poison: set[int], error: Exception) -> None:
        super().__init__()
        self.poison, self.error = poison, error

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        self.calls.append(rows.uids.tolist())
        good = [uid for uid in rows.uids.tolist() if uid not in self.poison]
        if good:
            yield doubled(rows, good)
        if len(good) < len(rows):
            raise self.error


class Sorted(Double):
    """Writes nothing: acknowledges rows of even numbers, drops the others."""

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        odd = rows.uids % 2 == 1
        yield Output(uids=rows.uids[~odd])
        yield Output(uids=rows.uids[odd], dropped="odd")


class Halving(Double):
    """Writes what a transform makes of x."""

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        yield Output(uids=rows.uids, columns={"y": np.asarray(rows["half"])})


def half(x: int) -> dict[str, int]:
    if x == 4:
        raise ArithmeticError("four is not to be halved")
    return {"half": x // 2}


HALF = TransformOptions(function=f"{__name__}:half", columns=("x",), writes={"half": "int64"})


class Held(Double):
    """Stands in `process` until `go` is set; tells when it stands there and when it was closed early."""

    capacity = 4

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go = asyncio.Event(), asyncio.Event()
        self.interrupted = 0

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        self.calls.append(rows.uids.tolist())
        self.inside.set()
        try:
            await self.go.wait()
            yield doubled(rows, rows.uids.tolist())
        except (asyncio.CancelledError, GeneratorExit):
            self.interrupted += 1
            raise


class Versioned(Double):
    version = -1

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[int] = []

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        self.loaded.append(version)
        self.version = version


class Store:
    """Weights by version; one of `gone` was pruned, and tells `on_gone`."""

    def __init__(self, gone: int = -1, on_gone: Any = None, error: Exception | None = None) -> None:
        self.gone, self.on_gone, self.error = gone, on_gone, error

    def read(self, policy: str, version: int, checksum: str) -> dict[str, np.ndarray]:
        if self.error is not None:
            raise self.error
        if version == self.gone:
            self.on_gone()
            raise WeightsGone(f"version {version} was pruned")
        return {"w": np.zeros(3, dtype=np.float32)}


class Bed:
    """A replica of `service` over a queue; its own client, so that what it leaves is seen from outside."""

    def __init__(self, service: Any, client: Client, own: Context, store: Store) -> None:
        self.client, self.report = client, cast(Remembered, own.report)
        self.replica = Replica(service, own, cast(WeightStore, store))

    async def figures(self) -> tuple[int, int, int]:
        """Rows that wait for the task, are leased by it, are in quarantine."""
        table = (await self.client.stats()).tables["numbers"]
        return table.tasks["double"].ready, table.tasks["double"].leased, table.quarantined


@asynccontextmanager
async def bed(
    service: Any,
    tmp_path: Path,
    store: Store | None = None,
    *,
    table: TableSpec = NUMBERS,
    transforms: tuple[TransformOptions, ...] = (),
) -> AsyncIterator[Bed]:
    async with (
        asyncio.timeout(20),
        queue(tmp_path, table) as (address, client),
        await Client.connect(address, holder="double/0") as own,
    ):
        knows = context(own, Remembered(), tmp_path, transforms=transforms)
        yield Bed(service, client, knows, store or Store())


async def checked(client: Client) -> dict[int, int]:
    """x to y of every whole row that is ready."""
    lease = await client.lease("check", 1000, timeout_s=5.0)
    x, y = np.asarray(lease.rows["x"]).tolist(), np.asarray(lease.rows["y"]).tolist()
    return dict(zip(x, y, strict=True))


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
        back = await b.client.lease("double", 8, timeout_s=5)
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
        assert (await b.figures())[1] == 0
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
        lease = await b.client.lease("double", 8, timeout_s=1.0)
        assert lease.rows.attempts.tolist() == [1] * 8
        assert (service.interrupted, service.closed) == (1, 1)
        assert b.report.states[-1] == "stopped"


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


async def test_weights_that_are_not_those_published_end_the_replica(tmp_path: Path) -> None:
    async with bed(Versioned(), tmp_path, Store(error=WeightsError("sha256 differs"))) as b:
        await b.client.publish("actor", 0, "sum")
        with pytest.raises(ExceptionGroup) as raised:
            await b.replica.run()
        assert str(first_error(raised.value)) == "sha256 differs"
        assert b.report.states == ["loading", "failed"]


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
        lease = await b.client.lease("check", 10, timeout_s=5.0)
        assert lease.rows.uids.tolist() == [0, 2, 4]
        assert b.report.of("process_failed") == b.report.of("lease_lost") == []


async def test_rows_that_another_node_drops_are_passed_over_and_the_others_written(tmp_path: Path) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=2)
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        await b.client.drop("numbers", [1, 2], "not wanted")
        service.go.set()
        await running
        assert await checked(b.client) == {0: 0, 3: 6}
        assert (await b.figures())[1] == 0


async def test_rows_that_another_node_drops_do_not_keep_the_others_from_going_back(tmp_path: Path) -> None:
    service = Held()
    async with bed(service, tmp_path) as b:
        await put_numbers(b.client, groups=2)
        running = asyncio.create_task(b.replica.run())
        await service.inside.wait()
        await b.client.drop("numbers", [1, 2], "not wanted")
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
