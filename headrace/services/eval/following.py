"""The versions of a policy as they are published: those that are due are kept from that moment on.

    publication ─► due? ─► kept aside ─► waits to be scored, though the trainer's store lets it go

Invariant: what is taken is the version that it names; its bytes are checked when they are read. A due version
that could not be had is said, and the next one published stands in for it under its own number.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace.services.base import Context
from headrace.services.errors import WeightsGone
from headrace.services.eval.due import Due
from headrace.services.weights import WeightStore
from headrace.transferqueue import Publication

WAITING = 2
"""Versions kept beside the one that is scored, with one more in hand; those due beyond are passed over."""


class Following:
    """Takes the versions that are due, in order, until the last one is taken."""

    def __init__(self, context: Context, due: Due, published: WeightStore, kept: WeightStore) -> None:
        """`published`: where the trainer writes; `kept`: of this eval alone."""
        self._context = context
        self._due = due
        self._published = published
        self._kept = kept
        self._taken: asyncio.Queue[Publication] = asyncio.Queue(WAITING)

    async def run(self) -> None:
        """Raises WaitTimeout where the trainer owes a version for too long."""
        flow = self._context.flow
        wanted, after, seen, gone = self._due.from_(flow.first_step), -1, 0, ""
        while wanted is not None:
            publication = await self._context.client.published(
                self._context.policy_name, after=after, seen=seen, timeout_s=flow.no_progress_timeout_s
            )
            version, seen = publication.version, publication.serial
            if version <= after:
                self._forget(version)
                wanted = self._due.from_(version)
            after = version
            if wanted is None or version < wanted:
                continue
            try:
                await self._context.bring(publication.policy, version, publication.checksum)
                self._published.keep(publication.policy, version, self._kept)
            except WeightsGone as error:
                gone = str(error)
                continue
            self._say_skipped(wanted, version, gone or "later versions were published before it was taken")
            await self._taken.put(publication)
            wanted, gone = self._due.from_(version + 1), ""

    async def next(self) -> Publication:
        """The next one to be scored; to be read, and then dropped."""
        return await self._taken.get()

    async def read(self, taken: Publication) -> Mapping[str, Any]:
        """Verified, by Hugging Face name, for a model to hold where it lies. Raises WeightsError where other
        bytes were published."""
        version = await asyncio.to_thread(self._kept.take, taken.policy, taken.version, taken.checksum)
        await asyncio.to_thread(version.verify)
        return version

    def drop(self, taken: Publication) -> None:
        self._kept.drop(taken.policy, taken.version)

    def _forget(self, version: int) -> None:
        """Lets go of what waits of a timeline that was lost from `version` on."""
        waiting = [self._taken.get_nowait() for _ in range(self._taken.qsize())]
        for each in waiting:
            if each.version < version:
                self._taken.put_nowait(each)
            else:
                self.drop(each)

    def _say_skipped(self, wanted: int, taken: int, reason: str) -> None:
        for version in self._due.between(wanted, taken):
            self._context.report.event("eval_skipped", version=version, scored_instead=taken, reason=reason)
