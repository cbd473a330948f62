"""What becomes of a queue whose controller dies, over a runtime whose controllers end as a list says."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.dataflow.running import supervisor as supervision
from headrace.dataflow.running.kept_queue import RETURN_S, SILENCE_S, KeptQueue
from headrace.dataflow.running.runtimes.base import QueuePlace, ReplicaDied
from headrace.services.errors import ReplicaFailed
from headrace.services.options import QueueOptions
from tests.services.bench import Remembered

DIED = ReplicaDied("the process of queue is gone: killed")


class Serving:
    """A controller that ends by `end`, or serves until it is stopped where that is None."""

    pid = 7

    def __init__(self, end: Exception | None) -> None:
        self.end = end
        self.stopped = asyncio.Event()

    async def wait(self) -> None:
        if self.end is not None:
            raise self.end
        await self.stopped.wait()

    async def stop(self, timeout_s: float) -> None:
        self.stopped.set()


class Controllers:
    """A runtime; each start takes the next: an error to raise, or an address and how it ends."""

    def __init__(self, *starts: Exception | tuple[str, Exception | None]) -> None:
        self._starts = iter(starts)
        self.places: list[QueuePlace] = []

    async def start_queue(self, place: QueuePlace) -> tuple[str, Serving]:
        self.places.append(place)
        start = next(self._starts)
        if isinstance(start, Exception):
            raise start
        return start[0], Serving(start[1])


def kept(runtime: Controllers, durability: str, *, max_restarts: int = 2) -> tuple[KeptQueue, Remembered]:
    options = QueueOptions(durability=cast(Any, durability))
    place = QueuePlace(directory=Path("/q"), options=options, log_file=Path("/q.log"))
    report = Remembered()
    return KeptQueue(cast(Any, runtime), place, report, max_restarts=max_restarts), report


@pytest.fixture(autouse=True)
def without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "BACKOFF_FIRST_S", 0.0)


async def test_a_queue_on_disk_is_started_again_on_the_same_directory() -> None:
    runtime = Controllers(("tcp://a", DIED), ("tcp://a", DIED), ("tcp://a", None))
    queue, report = kept(runtime, "disk")
    async with asyncio.timeout(60), queue:
        while len(report.of("queue_restarted")) < 2:
            await asyncio.sleep(0)
        assert (queue.address, queue.timeout_s) == ("tcp://a", RETURN_S)
    assert [detail["reason"] for detail in report.of("queue_died")] == [str(DIED)] * 2
    assert [place.directory for place in runtime.places] == [Path("/q")] * 3


async def test_a_queue_in_memory_does_not_come_back() -> None:
    queue, report = kept(Controllers(("tcp://a", DIED)), "memory")
    async with asyncio.timeout(60), queue:
        assert queue.timeout_s == SILENCE_S
        with pytest.raises(ReplicaDied, match="the process of queue is gone"):
            await queue.over()
    assert report.of("queue_restarted") == []


async def test_a_queue_that_dies_again_and_again_is_given_up_with_its_last_cause() -> None:
    refused = ReplicaFailed("queue: JournalError: disk is full")
    queue, report = kept(Controllers(("tcp://a", DIED), refused, refused), "disk")
    async with asyncio.timeout(60), queue:
        with pytest.raises(ReplicaFailed, match="disk is full"):
            await queue.over()
    assert [detail["failures"] for detail in report.of("queue_died")] == [1, 2, 3]


async def test_a_queue_that_comes_back_where_nobody_looks_is_an_error() -> None:
    queue, _ = kept(Controllers(("tcp://a", DIED), ("tcp://b", None)), "disk")
    async with asyncio.timeout(60), queue:
        with pytest.raises(ReplicaFailed, match="came back at tcp://b, and its clients know it at tcp://a"):
            await queue.over()
