"""A trainer of a run that goes on, which ends before it has loaded its checkpoint."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from headrace.services.trainer import service
from headrace.services.trainer.backends import open_backend
from tests.services.trainer.bed import Counting, bed

PATIENCE_S = 60.0


def before_opening(monkeypatch: pytest.MonkeyPatch, first: Callable[[], object]) -> None:
    opening: Callable[..., Any] = getattr(service, open_backend.__name__)

    def opened(*told: Any) -> Any:
        first()
        return opening(*told)

    monkeypatch.setattr(service, open_backend.__name__, opened)


async def test_one_that_is_stopped_meanwhile_ends_as_asked_and_closes_what_it_opened(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may = Event(), Event()

    def held() -> None:
        began.set()
        assert may.wait(PATIENCE_S)

    before_opening(monkeypatch, held)
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(first_step=8, steps=9))
        assert await asyncio.to_thread(began.wait, PATIENCE_S)
        running.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        may.set()
        await asyncio.wait({running})
        assert running.cancelled() and backend.closed
        assert b.checkpoints() == {} and b.report.of("not_saved") == []


async def test_one_that_cannot_load_says_why(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OSError("the model's folder is gone")

    before_opening(monkeypatch, refused)
    async with bed(tmp_path) as b:
        with pytest.raises(OSError, match="the model's folder is gone"):
            await b.run(first_step=8, steps=9)
