"""What faults do to work that passes them."""

import asyncio
import errno
from pathlib import Path

import pytest

from headrace.services.faults import Drill, Fault, Faults, damage


async def test_without_a_fault_work_passes_and_writes() -> None:
    faults = Faults()
    await faults.after_work(1000.0)
    faults.before_writing()
    assert not faults.corrupts()


async def test_an_error_is_raised_as_often_as_was_asked() -> None:
    faults = Faults()
    faults.arm(Fault(kind="error", times=2))
    for number in (1, 2):
        with pytest.raises(Drill, match=f"number {number} of 2"):
            await faults.after_work(0.0)
    await faults.after_work(0.0)


async def test_work_that_hangs_goes_on_once_the_fault_is_lifted() -> None:
    faults = Faults()
    faults.arm(Fault(kind="hang"))
    work = asyncio.create_task(faults.after_work(0.0))
    await asyncio.sleep(0)
    assert not work.done()
    faults.lift()
    await work
    await faults.after_work(0.0)


async def test_slow_work_takes_so_many_times_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("headrace.services.faults.asyncio.sleep", sleep)
    faults = Faults()
    faults.arm(Fault(kind="slow", factor=3.0))
    await faults.after_work(0.5)
    assert slept == [1.0]


async def test_a_disk_is_full_until_the_fault_is_lifted() -> None:
    faults = Faults()
    faults.arm(Fault(kind="full-disk"))
    for _ in range(2):
        with pytest.raises(OSError, match="a full disk was asked for") as full:
            faults.before_writing()
        assert full.value.errno == errno.ENOSPC
    faults.lift()
    faults.before_writing()


async def test_weights_are_damaged_once(tmp_path: Path) -> None:
    faults = Faults()
    faults.arm(Fault(kind="corrupt"))
    assert (faults.corrupts(), faults.corrupts()) == (True, False)
    (tmp_path / "w").write_bytes(b"abc\x01")
    damage(tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == b"abc\xfe"
