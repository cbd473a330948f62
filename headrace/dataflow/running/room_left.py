"""Hears of the queue who has no room on disk, says it, and knows since when all go on.

    somebody has none ─► `paused`, with where and how much ─► `resumed`

Invariant: while somebody has none nobody counts as wedged, since who waits for the queue moves nothing; each
has its whole time again when all go on.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from headrace.services.base import Report
from headrace.transferqueue import Client, Shortage, WaitTimeout

ASKED_S = 3600.0
QUEUE = "queue"


class RoomLeft:
    """Of the queue of one launch."""

    def __init__(self, report: Report, now: Callable[[], float] = time.monotonic) -> None:
        self.short: Sequence[Shortage] = ()
        self._report = report
        self._now = now
        self._resumed_s = -math.inf

    @property
    def moving_s(self) -> float:
        """Seconds for which everybody has had room."""
        return 0.0 if self.short else self._now() - self._resumed_s

    async def follow(self, client: Client) -> None:
        """Until it is cancelled, or the queue is gone."""
        known = -1
        while True:
            try:
                known, short = await client.shortages(known, timeout_s=ASKED_S)
            except WaitTimeout:
                continue
            self.take(short)

    def take(self, short: Sequence[Shortage]) -> None:
        """These have none from now on, and no others."""
        before, now = {each.holder for each in self.short}, {each.holder: each for each in short}
        for holder in now.keys() - before:
            self._report.event("paused", **_said(now[holder]))
        for holder in before - now.keys():
            self._report.event("resumed", replica=holder or QUEUE)
        if before and not now:
            self._resumed_s = self._now()
        self.short = tuple(short)


@asynccontextmanager
async def followed(client: Client, report: Report) -> AsyncIterator[RoomLeft]:
    """What is known of it in the block."""
    left = RoomLeft(report)
    following = asyncio.create_task(left.follow(client), name="room left")
    try:
        yield left
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _said(short: Shortage) -> dict[str, object]:
    return {
        "replica": short.holder or QUEUE,
        "directory": short.directory,
        "needed_bytes": short.needed_bytes,
        "reason": short.reason,
        "way_out": f"make room in {short.directory}",
    }
