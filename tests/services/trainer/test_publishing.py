"""A version goes out beside the next step, and no update comes before it is out."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from headrace.algorithms.base import Algorithm
from headrace.services.errors import WeightsError
from headrace.services.trainer.beside import beside
from headrace.services.trainer.publishing import Publishing
from headrace.services.trainer.samples import Samples
from headrace.services.weights import WeightStore
from tests.services.trainer.bed import SPEC, Bed, Counting, bed

PATIENCE_S = 60.0
WEIGHTS = {"w": torch.tensor([1.0])}


class Slow(WeightStore):
    """Writes a version from 1 on once it may."""

    began, may = Event(), Event()

    def write(self, policy: str, version: int, weights: Mapping[str, torch.Tensor]) -> str:
        if version:
            self.began.set()
            assert self.may.wait(PATIENCE_S)
        return super().write(policy, version, weights)


class Full(WeightStore):
    """Has room for the first version alone."""

    def write(self, policy: str, version: int, weights: Mapping[str, torch.Tensor]) -> str:
        if version:
            raise WeightsError("no room for weights")
        return super().write(policy, version, weights)


def in_place(monkeypatch: pytest.MonkeyPatch, store: type[WeightStore]) -> None:
    monkeypatch.setattr("headrace.services.trainer.publishing.WeightStore", store)


def opened(b: Bed) -> Publishing:
    made = Publishing()
    made.open(b.context)
    return made


async def test_a_step_accumulates_while_the_version_before_goes_out_and_its_update_waits(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    Slow.began, Slow.may, second = Event(), Event(), Event()
    in_place(monkeypatch, Slow)
    accumulate = backend.accumulate

    def told(samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        found = accumulate(samples, algorithm)
        if backend.weight == 1 and len(backend.batches[-1]) == 4:
            second.set()
        return found

    monkeypatch.setattr(backend, "accumulate", told)
    async with bed(tmp_path, replace(SPEC, staleness=1.0)) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await b.version(after=-1)
        await b.answer(4, 0)
        assert await asyncio.to_thread(Slow.began.wait, PATIENCE_S)
        assert await asyncio.to_thread(second.wait, PATIENCE_S)
        assert backend.weight == 1
        Slow.may.set()
        await running
        assert backend.weight == 2
        found = await b.client.published("actor", after=1, timeout_s=PATIENCE_S)
        assert WeightStore(tmp_path / "weights").read("actor", 2, found.checksum)["w"].tolist() == [2]
        told_of = [m for step, m in b.report.lines if step == 1]
        assert {"sync/publish_seconds", "sync/waited_seconds"} <= told_of[0].keys()


async def test_a_version_that_cannot_be_written_ends_a_trainer_that_waits_for_its_rows(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place(monkeypatch, Full)
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await b.version(after=-1)
        await b.answer(2, 0)
        with pytest.raises(WeightsError, match="no room for weights"):
            await running
        (event,) = b.report.of("not_published")
        assert (event["version"], event["reason"]) == (1, "WeightsError: no room for weights")
        assert backend.closed


async def test_a_version_is_published_once_its_step_is_committed_and_not_before(tmp_path: Path) -> None:
    async with bed(tmp_path) as b:
        going, committed = opened(b), asyncio.get_running_loop().create_future()
        going.begin(0, WEIGHTS, committed)
        out = asyncio.create_task(going.out())
        assert not out.done()
        committed.set_result(None)
        await out
        assert await b.version(after=-1) == 0
        assert await going.failure() is None


async def test_a_step_that_was_not_committed_has_its_version_known_to_nobody(tmp_path: Path) -> None:
    async with bed(tmp_path) as b:
        going, committed = opened(b), asyncio.get_running_loop().create_future()
        going.begin(0, WEIGHTS, committed)
        committed.set_exception(RuntimeError("the queue is gone"))
        with pytest.raises(RuntimeError, match="the queue is gone"):
            await beside(forever(), going.going)
        assert await going.failure() == "RuntimeError: the queue is gone"


async def forever() -> Any:
    await asyncio.Event().wait()
