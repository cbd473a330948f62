"""Copies of a trainer's checkpoints into a store, beside its steps; what fails is told of and tried again.

Invariant: no step waits for a copy, and none is lost by one: where all tries fail the run goes on, and the
newest checkpoint is copied next. One is on its way at a time; those that come meanwhile but the newest are
passed over.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services.errors import describe
from headrace.services.trainer import checkpoint
from headrace.services.trainer.store import Store

if TYPE_CHECKING:
    from headrace.services.base import Report

TRIES = 5
PAUSE_S = 1.0
"""Before the second try; doubled before each further one."""


class Copying:
    """Between the first `begin` and `out`."""

    def __init__(self, address: str, report: "Report", *, keep: int, keep_every: int) -> None:
        self._address = address
        self._report = report
        self._keep, self._keep_every = keep, keep_every
        self._going: asyncio.Task[None] | None = None
        self._current: Path | None = None
        self._next: Path | None = None
        self._leaving = asyncio.Event()

    def spared(self) -> set[str]:
        """Names of the checkpoints that it reads or is about to."""
        return {path.name for path in (self._current, self._next) if path is not None}

    def begin(self, path: Path) -> None:
        """Copies a checkpoint, once what is on its way is done."""
        self._next = path
        if self._going is None or self._going.done():
            self._going = asyncio.create_task(self._all(), name="copying")

    def leave(self) -> None:
        """From now on what fails is not tried again."""
        self._leaving.set()

    async def out(self) -> None:
        """Returns once nothing is on its way."""
        if self._going is not None:
            await asyncio.wait({self._going})
            self._going.result()

    async def _all(self) -> None:
        while self._next is not None:
            self._current, self._next = self._next, None
            try:
                await self._copied(self._current)
            finally:
                self._current = None

    async def _copied(self, path: Path) -> None:
        pause_s = PAUSE_S
        for number in range(1, TRIES + 1):
            try:
                await asyncio.to_thread(self._put, path)
            except Exception as error:
                why = describe(error)
                last = number == TRIES or self._leaving.is_set()
                self._report.event(
                    "checkpoint_not_copied",
                    path=path.name,
                    store=self._address,
                    reason=why,
                    tries=number,
                    way_out="the run goes on; the next checkpoint is copied, look to the store until then"
                    if last
                    else f"it is tried again in {pause_s:g} s",
                )
                if last:
                    return
                await self._rested(pause_s)
                pause_s *= 2
            else:
                self._report.event("checkpoint_copied", path=path.name, store=self._address)
                return

    def _put(self, path: Path) -> None:
        store = Store(self._address)
        store.put(path)
        store.prune(keep=self._keep, keep_every=self._keep_every)

    async def _rested(self, pause_s: float) -> None:
        leaving = asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait({leaving}, timeout=pause_s)
        leaving.cancel()


def brought(address: str, directory: Path) -> checkpoint.Found:
    """The newest copy that verifies, of those that are newer than what `directory` has; made a checkpoint
    there. Raises what the store raises."""
    store = Store(address)
    there, here = store.steps(), checkpoint.newest(directory).checkpoint
    skipped: list[checkpoint.Skipped] = []
    for step in sorted(there, reverse=True):
        if here is not None and step <= here.step:
            break
        try:
            found = store.fetch(step, directory)
        except ValueError as error:
            skipped.append(checkpoint.Skipped(path=Path(there[step]), reason=str(error)))
        else:
            return checkpoint.Found(checkpoint=found, skipped=tuple(skipped))
    return checkpoint.Found(checkpoint=None, skipped=tuple(skipped))
