"""The buckets of one version on their way into a file of this node.

    at hand? ─► else asked for, as what changed since the base ─► digest ─► else asked for whole

Invariant: a bucket that is done has the digest that its header tells; the others may hold anything.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
import xxhash

from headrace.services.errors import WeightsError, first_error
from headrace.services.weights.layout import Bucket, Header
from headrace.services.weights.patches import apply, is_sparse
from headrace.services.weights.server import NO_BASE

ASKED_AT_ONCE = 4
"""Buckets on their way at a time: what bounds the memory of both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What it took to have a version here."""

    moved_bytes: int
    """That came over the line, the header's included."""
    buckets: int
    sparse: int
    """Of which only what changed came."""
    at_hand: int
    """Of which nothing came: as in the version before, or left by a pull that was cut off."""


NOTHING_MOVED = Pulled(moved_bytes=0, buckets=0, sparse=0, at_hand=0)
"""The version was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A version that is here, to make another of the same layout from."""

    version: int
    checksum: str
    digests: tuple[str, ...]
    data: np.ndarray
    """uint8 [size]; not verified, since what is made from it is."""


NOTHING = Base(version=NO_BASE, checksum="", digests=(), data=np.zeros(0, np.uint8))
Ask = Callable[[int, Base], Awaitable[bytes]]
"""The patch of a bucket, by its number, from a base or from NOTHING."""


class Transfer:
    """Fills `data`, uint8 [size], as `header` says."""

    def __init__(self, header: Header, data: np.ndarray, base: Base, ask: Ask) -> None:
        self._header = header
        self._data = data
        self._base = base
        self._ask = ask
        self._turns = asyncio.Semaphore(ASKED_AT_ONCE)
        self._moved_bytes = self._sparse = self._at_hand = 0

    async def run(self) -> Pulled:
        """Raises what `ask` raises, WeightsError where what comes is not what was published."""
        buckets = self._header.layout.buckets()
        try:
            async with asyncio.TaskGroup() as group:
                for index, bucket in enumerate(buckets):
                    group.create_task(self._bring(index, bucket))
        except ExceptionGroup as errors:
            raise first_error(errors) from None
        return Pulled(
            moved_bytes=self._moved_bytes,
            buckets=len(buckets),
            sparse=self._sparse,
            at_hand=self._at_hand,
        )

    async def _bring(self, index: int, bucket: Bucket) -> None:
        async with self._turns:
            if self._is_at_hand(index, bucket):
                self._at_hand += 1
                return
            bases = (NOTHING,) if self._base is NOTHING else (self._base, NOTHING)
            for base in bases:
                patch = await self._ask(index, base)
                self._moved_bytes += len(patch)
                if self._fits(patch, index, bucket):
                    self._sparse += is_sparse(patch)
                    return
        raise WeightsError(
            f"bucket {index}, of {self._header.layout.of(bucket)[0]}, came with another digest than "
            f"{self._header.digests[index][:12]}, which was published"
        )

    def _is_at_hand(self, index: int, bucket: Bucket) -> bool:
        """Whether the file holds it from before, or the base does."""
        if self._is_right(index, bucket):
            return True
        if self._base is NOTHING or self._base.digests[index] != self._header.digests[index]:
            return False
        self._of(bucket)[:] = self._base.data[bucket.start : bucket.end]
        return self._is_right(index, bucket)

    def _fits(self, patch: bytes, index: int, bucket: Bucket) -> bool:
        old = None if self._base is NOTHING else self._base.data[bucket.start : bucket.end]
        try:
            apply(patch, old, self._of(bucket), bucket.width)
        except WeightsError:
            return False
        return self._is_right(index, bucket)

    def _is_right(self, index: int, bucket: Bucket) -> bool:
        return xxhash.xxh3_128_hexdigest(self._of(bucket).data) == self._header.digests[index]

    def _of(self, bucket: Bucket) -> np.ndarray:
        return self._data[bucket.start : bucket.end]
