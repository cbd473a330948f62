"""Who counts as wedged, over handles that answer as a list says."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from headrace.dataflow.running import watch
from headrace.dataflow.running.runtimes.base import ReplicaDied, ReplicaHandle
from headrace.dataflow.running.watch import Limits, Wedged, lived, still, watched
from headrace.services.pulse import Beat

LIMITS = Limits(ready_s=20.0, loading_s=60.0)


def beat(still_s: float, *, ready: bool = True, doing: str = "process 4 rows") -> Beat:
    return Beat(doing=doing, still_s=still_s, ready=ready)


class Looked:
    """Answers each look with the next of `says`, then with nothing; ends as its work does."""

    pid, node = 1, ""

    def __init__(self, *says: Any, dies: str = "") -> None:
        self.says, self.dies, self.killed, self.ended = list(says), dies, 0, asyncio.Event()

    async def look(self) -> Beat:
        if not self.says:
            await asyncio.Event().wait()
        if isinstance(found := self.says.pop(0), Exception):
            raise found
        return found

    async def wait(self) -> None:
        await self.ended.wait()

    async def kill(self) -> None:
        self.killed += 1
        if self.dies:
            raise TimeoutError(self.dies)


@pytest.fixture(autouse=True)
async def in_time(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(watch, "EVERY_S", 0.0)
    async with asyncio.timeout(60):
        yield


def handle(looked: Looked) -> ReplicaHandle:
    return cast(ReplicaHandle, looked)


def test_a_replica_that_loads_has_the_time_that_the_run_has() -> None:
    assert still(beat(20.0), LIMITS) is None
    assert still(beat(20.5), LIMITS) == (
        "nothing has come of its work for 20.5 s (allowed: 20): process 4 rows"
    )
    assert still(beat(60.0, ready=False), LIMITS) is None
    assert still(beat(61.0, ready=False), LIMITS) is not None


async def test_looks_go_on_until_one_says_that_nothing_moves() -> None:
    looked = Looked(beat(1.0), beat(0.0, doing=""), beat(21.0))
    with pytest.raises(Wedged, match="answers/0 is wedged: nothing has come of its work"):
        await watched(handle(looked), "answers/0", LIMITS)
    assert looked.says == []


async def test_a_replica_that_does_not_answer_is_wedged_and_what_it_did_before_is_said() -> None:
    looked = Looked(beat(0.0))
    limits = Limits(ready_s=0.2, loading_s=60.0)
    with pytest.raises(Wedged, match=r"not answered for 0.2 s; before that: process 4 rows"):
        await watched(handle(looked), "answers/0", limits)


async def test_a_replica_that_has_ended_is_not_wedged() -> None:
    looked = Looked(ReplicaDied("gone"))
    living = asyncio.create_task(lived(handle(looked), "answers/0", LIMITS))
    while looked.says:
        await asyncio.sleep(0)
    looked.ended.set()
    await living
    assert looked.killed == 0


async def test_a_wedged_replica_is_killed_once() -> None:
    looked = Looked(beat(21.0))
    with pytest.raises(Wedged):
        await lived(handle(looked), "answers/0", LIMITS)
    assert looked.killed == 1


async def test_what_cannot_be_killed_is_said() -> None:
    looked = Looked(beat(21.0), dies="its thread goes on")
    with pytest.raises(Wedged, match="process 4 rows; its thread goes on"):
        await lived(handle(looked), "answers/0", LIMITS)


async def test_a_replica_is_not_still_for_longer_than_the_queue_has_had_room() -> None:
    """Twice 25 seconds without movement, of which the queue had room for 3 and for 20.5."""
    looked, moving = Looked(beat(25.0), beat(25.0)), iter([3.0, 20.5])
    with pytest.raises(Wedged, match=r"nothing has come of its work for 20\.5 s"):
        await watched(handle(looked), "answers/0", LIMITS, lambda: next(moving))
    assert looked.says == []
