"""A checkpoint goes to disk beside the next steps: what is told of it when, and what becomes of a failure."""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from headrace.services import room as rooms
from headrace.services.trainer.backend import NotSaved
from tests.services.trainer.bed import SPEC, Bed, Counting, bed

PATIENCE_S = 60.0


class Gate:
    """Passed by the checkpoint of one weight once it may be."""

    def __init__(self, weight: int) -> None:
        self.weight, self.began, self.may = weight, Event(), Event()

    def __call__(self, weight: int) -> None:
        if weight == self.weight:
            self.began.set()
            assert self.may.wait(PATIENCE_S)


class Faulty:
    """Raises each of `errors` before it lets a checkpoint be written."""

    def __init__(self, *errors: OSError) -> None:
        self.errors = list(errors)

    def __call__(self, weight: int) -> None:
        if self.errors:
            raise self.errors.pop(0)


def heard(b: Bed, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that the queue is told of, as they are."""
    told, tell = [], b.own.checkpointed

    async def telling(task: str, step: int) -> None:
        told.append(step)
        await tell(task, step)

    monkeypatch.setattr(b.own, "checkpointed", telling)
    return told


async def steps(b: Bed, first: int, last: int) -> None:
    for version in range(first, last):
        await b.version(after=version - 1)
        await b.answer(2, version)


async def test_steps_go_on_while_a_checkpoint_is_written_and_the_queue_hears_once_it_is_whole(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.before_writing = gate = Gate(1)
    spec = replace(SPEC, rewindable=True)
    async with bed(tmp_path, spec, checkpoint_every=1, keep_checkpoints=1) as b:
        told = heard(b, monkeypatch)
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await steps(b, 0, 2)
        assert await asyncio.to_thread(gate.began.wait, PATIENCE_S)
        await b.version(after=1)
        assert backend.weight == 2 and b.checkpoints() == {}
        assert told == [] and b.report.of("checkpoint") == []
        gate.may.set()
        await running
        assert told == [1, 2] and b.checkpoints() == {"step-00000002": 2}
        assert [each["step"] for each in b.report.of("checkpoint")] == [1, 2]


async def test_a_checkpoint_waits_for_the_one_before_it(tmp_path: Path, backend: Counting) -> None:
    backend.before_writing = gate = Gate(1)
    async with bed(tmp_path, checkpoint_every=1, keep_checkpoints=9) as b:
        running = asyncio.create_task(b.run(steps=3))
        await b.prompts(6)
        await steps(b, 0, 2)
        await b.version(after=1)
        assert backend.copied == 1
        gate.may.set()
        await steps(b, 2, 3)
        await running
        assert b.checkpoints() == {f"step-0000000{step}": step for step in (1, 2, 3)}


async def test_what_keeps_a_checkpoint_from_being_written_ends_a_trainer_that_waits_for_rows(
    tmp_path: Path, backend: Counting
) -> None:
    backend.before_writing = Faulty(OSError(errno.EIO, "Input/output error"))
    async with bed(tmp_path, checkpoint_every=1) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await steps(b, 0, 1)
        with pytest.raises(NotSaved, match=r"could not be written; rank 0: OSError: \[Errno 5\]"):
            await running
        assert b.checkpoints() == {}
        (event,) = b.report.of("not_saved")
        assert (event["step"], event["reason"].split(":")[0]) == (1, "NotSaved")
        assert not (tmp_path / "checkpoints" / ".tmp").exists()
        assert backend.closed


async def test_a_disk_that_fills_up_while_one_is_written_pauses_the_steps_until_there_is_room(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "LOOK_EVERY_S", 0.0)
    full = OSError(errno.ENOSPC, "No space left on device")
    backend.before_writing = Faulty(full, full)
    async with bed(tmp_path, checkpoint_every=1) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await steps(b, 0, 2)
        await running
        assert b.checkpoints() == {"step-00000001": 1, "step-00000002": 2}
        assert [each["what"] for each in b.report.of("paused")] == ["the checkpoint of step 1"]
        assert [each["what"] for each in b.report.of("resumed")] == ["the checkpoint of step 1"]


async def test_a_trainer_that_is_stopped_waits_for_the_checkpoint_that_is_being_written(
    tmp_path: Path, backend: Counting
) -> None:
    backend.before_writing = gate = Gate(1)
    async with bed(tmp_path, checkpoint_every=1) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await steps(b, 0, 1)
        assert await asyncio.to_thread(gate.began.wait, PATIENCE_S)
        running.cancel()
        gate.may.set()
        await asyncio.wait({running})
        assert running.cancelled() and b.checkpoints() == {"step-00000001": 1}
        assert b.report.of("not_saved") == []


async def test_where_it_is_not_asynchronous_the_next_step_waits(tmp_path: Path, backend: Counting) -> None:
    backend.before_writing = gate = Gate(1)
    async with bed(tmp_path, checkpoint_every=1, keep_checkpoints=1, checkpoint_async=False) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await steps(b, 0, 2)
        assert await asyncio.to_thread(gate.began.wait, PATIENCE_S)
        assert (backend.weight, backend.copied) == (1, 0)
        gate.may.set()
        await running
        assert b.checkpoints() == {"step-00000002": 2}
