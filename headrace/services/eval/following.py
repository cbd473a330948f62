"""The versions of a policy as they are published: those that are due are mapped at once and kept.

    publication ─► due? ─► read and check ─► waits to be scored, its bytes kept though the file may go

Invariant: what is taken are the published bytes of the version that it names. A due version that could not
be had is said, and the next one published stands in for it under its own number.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.services.base import Context
from headrace.services.errors import WeightsGone
from headrace.services.eval.due import Due
from headrace.services.weights import WeightStore
from headrace.transferqueue import Publication

WAITING = 1
"""Versions that wait to be scored beside the one that is; with one more in hand, the next is passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A version to score."""

    version: int
    checksum: str
    weights: Mapping[str, Any] = field(repr=False)
    """Views of the file, by Hugging Face name."""


class Following:
    """Takes the versions that are due, in order, until the last one is taken."""

    def __init__(self, context: Context, due: Due, store: WeightStore) -> None:
        self._context = context
        self._due = due
        self._store = store
        self._taken: asyncio.Queue[Taken] = asyncio.Queue(WAITING)

    async def run(self) -> None:
        """Raises WaitTimeout where the trainer owes a version for too long, WeightsError."""
        flow = self._context.flow
        wanted, after, seen, gone = self._due.from_(flow.first_step), -1, 0, ""
        while wanted is not None:
            publication = await self._context.client.published(
                self._context.policy_name, after=after, seen=seen, timeout_s=flow.no_progress_timeout_s
            )
            version, seen = publication.version, publication.serial
            if version <= after:
                wanted = self._due.from_(version)
            after = version
            if wanted is None or version < wanted:
                continue
            try:
                taken = await self._read(publication)
            except WeightsGone as error:
                gone = str(error)
                continue
            self._say_skipped(wanted, version, gone or "later versions were published before it was read")
            await self._taken.put(taken)
            wanted, gone = self._due.from_(version + 1), ""

    async def next(self) -> Taken:
        return await self._taken.get()

    async def _read(self, publication: Publication) -> Taken:
        policy, version, checksum = publication.policy, publication.version, publication.checksum
        weights = await asyncio.to_thread(self._store.read, policy, version, checksum)
        return Taken(version=version, checksum=checksum, weights=weights)

    def _say_skipped(self, wanted: int, taken: int, reason: str) -> None:
        for version in self._due.between(wanted, taken):
            self._context.report.event("eval_skipped", version=version, scored_instead=taken, reason=reason)
