"""One hosted replica from its assignment to its end: what is left of it in the queue and in its log."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.services.base import Context, Output
from headrace.services.errors import NoWayOn, ReplicaFailed, WeightsError, WeightsRefused
from headrace.services.host import Assignment, Hosted
from headrace.services.kinds import KINDS
from headrace.services.options import PolicyOptions
from headrace.services.report import TABLE
from headrace.transferqueue import Client, EndOfData, Rows
from tests.services.bench import FLOW, NUMBERS, put_numbers, queue


class Double:
    capacity = 8

    async def setup(self, context: Context) -> None: ...

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        yield Output(uids=rows.uids, columns={"y": 2 * np.asarray(rows["x"])})

    async def close(self) -> None: ...


class Unsettled(Double):
    """Breaks in setup, and again while it is closed."""

    async def setup(self, context: Context) -> None:
        raise FileNotFoundError("no model")

    async def close(self) -> None:
        raise OSError("disk full")


class Loop:
    """A service that leads its own loop, and goes on until it is stopped."""

    async def setup(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        await self._context.client.end("numbers")
        await asyncio.Event().wait()

    async def close(self) -> None:
        self._context.report.event("closed_in_order")


@asynccontextmanager
async def hosted(
    serves: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Hosted, Client]]:
    monkeypatch.setitem(KINDS, "reward", replace(KINDS["reward"], serves=serves))
    (tmp_path / "logs").mkdir()
    async with asyncio.timeout(60), queue(tmp_path, NUMBERS, TABLE) as (address, client):
        assignment = Assignment(
            kind="reward",
            node="double",
            index=3,
            run="test",
            run_dir=tmp_path,
            shared_dir=tmp_path,
            queue_address=address,
            queue_timeout_s=10.0,
            seed=0,
            threads=1,
            options=None,
            policy_name="actor",
            policy=PolicyOptions(model="tiny-copier"),
            policy_is_trained=True,
            flow=FLOW,
        )
        yield Hosted(assignment), client


def here(name: str) -> str:
    return f"{__name__}:{name}"


def log(tmp_path: Path) -> str:
    return (tmp_path / "logs" / "double-3.log").read_text()


async def test_a_replica_serves_until_the_data_ends_and_leaves_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(here("Double"), tmp_path, monkeypatch) as (replica, client):
        await put_numbers(client, groups=3)
        await replica.run()
        stats = await client.stats()
        assert stats.tables["numbers"].tasks["check"].ready == 6
        assert stats.clients == 1
        told = await client.lease("observe", 100, timeout_s=60.0)
        assert set(told.rows["source"]) == {"double/3"}
        assert log(tmp_path) == ""


async def test_what_broke_a_replica_is_in_its_error_and_its_log_the_root_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(here("Unsettled"), tmp_path, monkeypatch) as (replica, client):
        with pytest.raises(ReplicaFailed) as raised:
            await replica.run()
        assert str(raised.value) == "double/3: OSError: disk full <- FileNotFoundError: no model"
        assert "double/3 gave up" in log(tmp_path) and "no model" in log(tmp_path)
        assert (await client.stats()).clients == 1


class OutOfTime(Double):
    """Waits for something that does not come."""

    async def setup(self, context: Context) -> None:
        await context.client.published("actor", after=-1, timeout_s=0.01)


async def test_a_replica_whose_wait_ended_at_its_deadline_says_that_another_s_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(here("OutOfTime"), tmp_path, monkeypatch) as (replica, _):
        with pytest.raises(NoWayOn, match="double/3: WaitTimeout: no version of policy 'actor' after -1"):
            await replica.run()


async def test_a_service_that_cannot_be_imported_fails_its_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted("headrace.nowhere:Thing", tmp_path, monkeypatch) as (replica, _):
        with pytest.raises(ReplicaFailed, match="double/3: ImportError: kind: cannot import"):
            await replica.run()


async def test_a_stopped_loop_closes_and_its_last_record_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(here("Loop"), tmp_path, monkeypatch) as (replica, client):
        running = asyncio.create_task(replica.run())
        await until_ended(client)
        await asyncio.gather(replica.stop(), replica.stop())
        await running
        told = await client.lease("observe", 100, timeout_s=60.0)
        assert list(told.rows["kind"]) == ["state", "state", "state", "closed_in_order"]
        assert [body["new"] for body in told.rows["body"][:3]] == ["loading", "ready", "stopped"]
        assert (await client.stats()).clients == 1


async def until_ended(client: Client) -> None:
    """Waits, in the queue, until somebody has ended the table of numbers."""
    with pytest.raises(EndOfData):
        await client.lease("double", 1, timeout_s=60.0)


async def test_a_replica_that_is_stopped_before_it_ran_never_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted("headrace.nowhere:Thing", tmp_path, monkeypatch) as (replica, _):
        await replica.stop()
        await replica.run()


async def test_cancelling_a_run_stops_its_service_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(here("Loop"), tmp_path, monkeypatch) as (replica, client):
        running = asyncio.create_task(replica.run())
        await until_ended(client)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert (await client.stats()).clients == 1


class Damaged(Double):
    """As an engine that found bytes damaged while it copied them."""

    async def setup(self, context: Context) -> None:
        raise RuntimeError("decoding failed") from WeightsError("other bytes than were published")


async def test_damaged_weights_are_told_as_such_by_an_engine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(here("Damaged"), tmp_path, monkeypatch) as (replica, _):
        with pytest.raises(WeightsRefused, match="decoding failed"):
            await replica.run()
