"""What is told to those who watch a launch: how it stands, about once a second, as server-sent events.

    event: standing   data: {"at": Unix seconds, "run": as GET /v1/run, "rates": rows a second by node}
    event: trouble    data: {"at": ..., "detail": why it is not known}
    event: over       the launch has ended: nothing will follow

Invariant: the launch is asked once for all who watch, and not at all while nobody does.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from headrace.dataflow.running.live import Live
from headrace.transferqueue import QueueError

EVERY_S: Final = 1.0


class Feed:
    """Of one launch."""

    def __init__(self, live: Live, *, every_s: float = EVERY_S) -> None:
        self._live = live
        self._every_s = every_s
        self._over = asyncio.Event()
        self._asking = asyncio.Lock()
        self._newest = ""
        self._asked_at = -every_s

    def end(self) -> None:
        """All who watch are told that it is over."""
        self._over.set()

    async def events(self) -> AsyncIterator[str]:
        """For one who watches; ends after `over`."""
        while not self._over.is_set():
            yield await self._standing()
            try:
                async with asyncio.timeout(self._every_s):
                    await self._over.wait()
            except TimeoutError:
                continue
        yield _event("over", {})

    async def _standing(self) -> str:
        """Not older than `every_s`."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at >= self._every_s:
                self._newest = await self._asked()
                self._asked_at = now
            return self._newest

    async def _asked(self) -> str:
        try:
            run = await self._live.overview()
        except QueueError as error:
            return _event("trouble", {"at": time.time(), "detail": f"the queue does not answer: {error}"})
        at = time.time()
        return _event("standing", {"at": at, "run": run, "rates": dict(self._live.seen.pace.rates(at))})


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, allow_nan=False)}\n\n"
