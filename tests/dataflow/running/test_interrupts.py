"""The first and the second signal of a launch, sent to this very process."""

import asyncio
import os
import signal

import pytest

from headrace.dataflow.running.interrupts import Interrupts, kept_signals


async def under(patient: bool, *signals: int) -> tuple[str, int, bool]:
    """How a task ended that a launch's signals reached: its end, how many came, whether it was asked."""

    async def body() -> str:
        with Interrupts() as interrupts:
            interrupts.patient = patient
            seen.append(interrupts)
            for number in signals:
                os.kill(os.getpid(), number)
            try:
                while interrupts.count < len(signals):
                    await asyncio.sleep(0)
                await interrupts.asked.wait()
            except asyncio.CancelledError:
                return "cancelled"
            return "asked"

    seen: list[Interrupts] = []
    async with asyncio.timeout(60):
        end = await asyncio.create_task(body())
    return end, seen[0].count, seen[0].asked.is_set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_of_a_run_that_is_up_asks_it_to_end(number: int) -> None:
    assert await under(True, number) == ("asked", 1, True)


async def test_the_first_signal_of_one_that_is_starting_cuts_it_short() -> None:
    assert await under(False, signal.SIGTERM) == ("cancelled", 1, True)


async def test_the_second_signal_cuts_it_short() -> None:
    assert await under(True, signal.SIGINT, signal.SIGTERM) == ("cancelled", 2, True)


async def test_handlers_are_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    await under(True, signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_a_library_installs_is_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with kept_signals():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is before
