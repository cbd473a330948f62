"""Watches over a replica: one that answers nobody, or makes nothing of what it holds, is wedged and is ended.

    look ─► it waits, or something has come of its work ─► look again a little later
       └──► no answer, or still for too long             ─► Wedged: its process is killed

Invariant: a wedged replica is found within its limit and `EVERY_S` of its last movement, and none that waits
for others is. Until it is ready its limit is another, and longer.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.dataflow.running.runtimes.base import ReplicaDied, ReplicaHandle
from headrace.services.errors import ReplicaFailed
from headrace.services.pulse import LOADING, Beat

EVERY_S = 5.0
"""Seconds between two looks at a replica; a fourth of its limit, where that is shorter."""
OVERSLEPT_S = 2.0
"""An answer is missed only by a launcher that was awake: a timer this late says nothing of the replica."""


class Wedged(ReplicaDied):
    """A replica that is there, and does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds without movement."""

    ready_s: float
    loading_s: float

    def of(self, beat: Beat) -> float:
        return self.ready_s if beat.ready else self.loading_s


FIRST = Beat(doing=LOADING, still_s=0.0, ready=False)


def still(beat: Beat, limits: Limits) -> str | None:
    """Why the replica that said this is wedged; None: it is not."""
    if beat.still_s <= limits.of(beat):
        return None
    return (
        f"nothing has come of its work for {beat.still_s:.1f} s (allowed: {limits.of(beat):g}): {beat.doing}"
    )


def always() -> float:
    """For a queue that never has anybody wait for room."""
    return math.inf


async def lived(
    handle: ReplicaHandle, name: str, limits: Limits, moving_s: Callable[[], float] = always
) -> None:
    """Returns when a replica's work is over. Raises as its `wait`, and Wedged once it has been killed.

    `moving_s`: seconds for which the queue has had room; a replica is not still for longer than that.
    """
    living = asyncio.create_task(handle.wait())
    watching = asyncio.create_task(watched(handle, name, limits, moving_s))
    try:
        await asyncio.wait({living, watching}, return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            await living
            return
        try:
            await watching
        except Wedged as wedged:
            await _killed(handle, wedged)
    finally:
        for task in (living, watching):
            task.cancel()
        await asyncio.gather(living, watching, return_exceptions=True)


async def watched(
    handle: ReplicaHandle, name: str, limits: Limits, moving_s: Callable[[], float] = always
) -> None:
    """Looks until the replica is wedged, and raises Wedged; for ever, where it is not or has ended."""
    last = FIRST
    while True:
        await asyncio.sleep(min(EVERY_S, limits.of(last) / 4))
        limit_s, asked_s = limits.of(last), time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                last = await handle.look()
        except TimeoutError:
            if time.monotonic() - asked_s > limit_s + OVERSLEPT_S:
                continue
            doing = f"; before that: {last.doing}" if last.doing else ""
            raise Wedged(f"{name} is wedged: it has not answered for {limit_s:g} s{doing}") from None
        except (ReplicaDied, ReplicaFailed):
            await asyncio.Event().wait()
        last = replace(last, still_s=min(last.still_s, moving_s()))
        if (why := still(last, limits)) is not None:
            raise Wedged(f"{name} is wedged: {why}")


async def _killed(handle: ReplicaHandle, wedged: Wedged) -> None:
    try:
        await handle.kill()
    except TimeoutError as left:
        raise Wedged(f"{wedged}; {left}") from wedged
    raise wedged
