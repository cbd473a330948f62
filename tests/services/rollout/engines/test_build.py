"""An engine that is being made when its replica is stopped."""

import asyncio
import threading

import pytest

from headrace.services.options import PolicyOptions, RolloutOptions
from headrace.services.rollout.engines import ENGINES, Engine, build
from headrace.services.rollout.engines.fake import FakeEngine, Script


class Slow:
    """Makes its engine when it is let go."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.engine = Closing(Script(), max_new_tokens=1, max_concurrent=1, version=0)
        self.error: Exception | None = None

    def __call__(
        self, options: RolloutOptions, policy: PolicyOptions | None, seed: int, version: int
    ) -> Engine:
        self.begun.set()
        assert self.may_end.wait(60)
        if self.error is not None:
            raise self.error
        return self.engine


class Closing(FakeEngine):
    closed = False

    async def close(self) -> None:
        self.closed = True
        await super().close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setitem(ENGINES, "fake", made)
    return made


async def begun(slow: Slow) -> asyncio.Task[Engine]:
    task = asyncio.create_task(build(RolloutOptions(engine="fake"), None, seed=0))
    assert await asyncio.to_thread(slow.begun.wait, 60)
    return task


async def test_an_engine_whose_making_is_cancelled_is_closed_before_the_cancellation_ends(slow: Slow):
    task = await begun(slow)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    slow.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.engine.closed


async def test_a_cancellation_stands_where_the_engine_could_not_be_made_either(slow: Slow):
    slow.error = ValueError("no such model")
    task = await begun(slow)
    task.cancel()
    slow.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_engine_that_is_made_is_handed_over_open(slow: Slow):
    slow.may_end.set()
    assert await (await begun(slow)) is slow.engine
    assert not slow.engine.closed
