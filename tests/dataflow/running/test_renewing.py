"""A replica that is to go on changed while it is being started."""

import asyncio
from dataclasses import replace
from typing import Any, cast

from headrace.dataflow.running.runtimes.base import ReplicaHandle
from headrace.dataflow.running.supervisor import Renewal, Supervisor
from headrace.services.host import Assignment
from headrace.transferqueue import Client
from tests.dataflow.running.lives import GOES_ON, Lives, Queue, assignment
from tests.services.bench import Remembered


class Slow(Lives):
    """Starts nothing before it may."""

    def __init__(self, diary: list[str], **lives: list[Any]) -> None:
        super().__init__(diary, **lives)
        self.may = asyncio.Event()

    async def start(self, assignment: Assignment) -> ReplicaHandle:
        await self.may.wait()
        return await super().start(assignment)


async def test_a_replica_that_is_being_started_is_renewed_as_soon_as_it_is() -> None:
    diary: list[str] = []
    slow: Any = Slow(diary, learn_0=[GOES_ON, GOES_ON])
    kept = Supervisor(slow, cast(Client, Queue(diary)), Remembered(), max_restarts=3)
    keeping = kept.keep(assignment(kind="trainer", node="learn"))
    await asyncio.sleep(0)
    wider = Renewal(
        change=lambda told: replace(told, threads=2), back=lambda told: told, reason="two threads"
    )
    renewing = asyncio.create_task(kept.renew("learn/0", wider, timeout_s=60.0))
    await asyncio.sleep(0)
    slow.may.set()
    async with asyncio.timeout(60):
        await renewing
        while diary.count("start learn/0") < 2:
            await asyncio.sleep(0)
    assert diary == ["start learn/0", "stop learn/0", "evict learn/0", "start learn/0"]
    assert [each.threads for each in slow.started] == [1, 2]
    await kept.stop()
    assert keeping.exception() is None
