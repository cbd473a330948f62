"""A policy's versions on their way out, beside the next step.

    update ─► copy to shared memory ─┬─► publish        the next step leases and accumulates meanwhile
              commit ────────────────┘                  its update waits until the version is out

Invariant: a version is published once it is whole and its step is committed, and no weight changes while it
is copied: whoever changes them waits for `out` first. One is on its way at a time.
"""

import asyncio
import time
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from headrace.services.base import Context
from headrace.services.errors import describe
from headrace.services.faults import damage
from headrace.services.weights import WeightStore

if TYPE_CHECKING:
    import torch


class Publishing:
    """Between `open` and `failure`."""

    def __init__(self) -> None:
        self._writing = Lock()
        self._going: asyncio.Task[None] | None = None
        self.seconds = 0.0
        """That the newest version took, from its copy's beginning until it was published."""

    @property
    def going(self) -> "asyncio.Task[None] | None":
        """The version that is on its way."""
        return self._going

    def open(self, context: Context) -> None:
        self._context = context
        self._store = WeightStore(context.shared_dir / "weights")

    def begin(
        self, version: int, weights: "Mapping[str, torch.Tensor]", committed: "asyncio.Future[None] | None"
    ) -> None:
        """Writes `weights`, which stay as they are until it is out, and publishes them once `committed`;
        None: they are of a step that was."""
        assert self._going is None, "one version at a time"
        self._going = asyncio.create_task(self._publish(version, weights, committed), name="publishing")

    async def out(self) -> float:
        """Returns once nothing is on its way; the seconds waited. Raises what kept a version from it."""
        began = time.monotonic()
        if self._going is not None:
            going = self._going
            await asyncio.wait({going})
            self._going = None
            going.result()
        return time.monotonic() - began

    async def failure(self) -> str | None:
        """Once nothing is on its way: why the last version is not out, or None."""
        if self._going is None:
            return None
        await asyncio.wait({self._going})
        error = self._going.exception()
        return None if error is None else describe(error)

    def write(self, version: int, weights: "Mapping[str, torch.Tensor]") -> str:
        """The checksum of a version that is in the store now, known to nobody."""
        policy = self._context.policy_name
        with self._writing:
            checksum = self._store.write(policy, version, weights)
            if self._context.faults.corrupts():
                damage(self._store.folder(policy).path(version))
            return checksum

    async def _publish(
        self, version: int, weights: "Mapping[str, torch.Tensor]", committed: "asyncio.Future[None] | None"
    ) -> None:
        began = time.monotonic()
        with self._context.trace.during(f"publish version {version}"):
            checksum = await asyncio.to_thread(self.write, version, weights)
            if committed is not None:
                await committed
            lost = await self._context.client.publish(self._context.policy_name, version, checksum)
        self.seconds = time.monotonic() - began
        if lost is not None:
            self._context.report.event(
                "new_timeline",
                version=version,
                rows_dropped=lost,
                reason="a step that was taken again came out other than before",
            )
