"""What is written once there is room, and what is not waited for."""

import asyncio
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.services import room as rooms
from headrace.services.errors import NoRoom
from headrace.services.pulse import Pulse
from headrace.services.room import Room
from headrace.transferqueue.room import is_full
from tests.services.bench import Remembered

FULL = OSError(errno.ENOSPC, "No space left on device")


class Disk:
    """Raises each of `errors` before it writes."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.tries = list(errors), 0

    async def write(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "written"


@pytest.fixture
def report() -> Remembered:
    return Remembered()


@pytest.fixture
def pulse() -> Pulse:
    return Pulse()


@pytest.fixture
def room(tmp_path: Path, pulse: Pulse, report: Remembered, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(rooms, "LOOK_EVERY_S", 0.0)
    return Room(tmp_path / "checkpoints", pulse, report)


def test_a_full_disk_is_known_by_its_number_by_its_words_and_as_a_cause() -> None:
    said = RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    wrapped = RuntimeError("it failed")
    wrapped.__cause__ = OSError(errno.EDQUOT, "over quota")
    assert [is_full(each) for each in (FULL, said, wrapped)] == [True, True, True]
    assert [is_full(each) for each in (OSError(errno.EIO, "bad"), ValueError("no"), None)] == [False] * 3


async def test_what_a_full_disk_refused_is_written_anew_and_the_pause_is_said_once(
    room: Room, report: Remembered, tmp_path: Path
) -> None:
    disk = Disk(FULL, FULL)
    assert await room.once_there_is(0, disk.write, "the checkpoint of step 4") == "written"
    assert disk.tries == 3
    (paused,) = report.of("paused")
    assert paused["reason"] == "the disk is full: [Errno 28] No space left on device"
    assert paused["way_out"] == f"make room in {tmp_path}/checkpoints"
    assert report.of("resumed") == [{"what": "the checkpoint of step 4"}]


async def test_nothing_is_written_before_what_it_needs_is_free(
    room: Room, report: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([10, 99, 100])

    def usage(path: Path) -> Any:
        return SimpleNamespace(free=next(free))

    monkeypatch.setattr("headrace.services.room.shutil.disk_usage", usage)
    disk = Disk()
    assert await room.once_there_is(100, disk.write, "it") == "written"
    assert disk.tries == 1
    assert report.of("paused")[0]["reason"] == "100 bytes are needed and 10 are free"


async def test_an_error_that_is_not_of_a_full_disk_travels(room: Room, report: Remembered) -> None:
    with pytest.raises(OSError, match="bad block"):
        await room.once_there_is(0, Disk(OSError(errno.EIO, "bad block")).write, "it")
    assert report.events == []


async def test_one_that_pauses_is_not_still_and_says_so(
    room: Room, pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "LOOK_EVERY_S", 60.0)
    writing = asyncio.create_task(room.once_there_is(0, Disk(FULL, FULL).write, "it"))
    while not pulse.look().doing:
        await asyncio.sleep(0)
    beat = pulse.look()
    assert beat.doing == "paused, it: the disk is full: [Errno 28] No space left on device"
    assert beat.still_s == 0.0
    room.leave()
    with pytest.raises(NoRoom, match="it: the disk is full"):
        await writing


async def test_nobody_waits_for_room_who_is_leaving(room: Room, report: Remembered) -> None:
    room.leave()
    with pytest.raises(NoRoom, match="the checkpoint: the disk is full"):
        await room.once_there_is(0, Disk(FULL).write, "the checkpoint")
    assert report.of("paused") == []
