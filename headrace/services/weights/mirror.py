"""Brings another node's versions to this one, where its replicas map them as the trainer's own node does.

    mirror = WeightMirror(store, server.address)
    await mirror.pull("actor", 7, checksum)         # then: store.read("actor", 7, checksum)

Invariant: what is published here has the checksum that was asked for, bucket by bucket; a version is whole or
absent. A pull that was cut off left its buckets in a spare file, and the next one finds them there by their
digests, in whatever process it runs.
"""

import asyncio
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.weights.folder import Writing
from headrace.services.weights.layout import BUCKET_BYTES, Header, Layout, checksum_of, parse
from headrace.services.weights.store import WeightStore
from headrace.services.weights.transfer import NOTHING, NOTHING_MOVED, Base, Pulled, Transfer
from headrace.transferqueue.errors import PayloadError
from headrace.transferqueue.link.asking import Line


class WeightMirror:
    """Fills `store` from the server at `address`; one per node. `timeout_s`: how long the server may be
    silent. `keys`: the run's, for an address beyond this machine."""

    def __init__(
        self,
        store: WeightStore,
        address: str,
        *,
        timeout_s: float = 30.0,
        keys: Path | None = None,
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        self._store = store
        self.address = address
        self._timeout_s = timeout_s
        self._line = Line(address, max_bytes=2 * BUCKET_BYTES, keys=keys, context=context)
        self._one_at_a_time = asyncio.Lock()

    def close(self) -> None:
        self._line.close()

    async def pull(self, policy: str, version: int, published: str) -> Pulled:
        """Has the store hold a version, of the checksum that was published.

        Waits for another process that fills the store, which may leave nothing to be done. Raises WeightsGone
        where the server has it no more, WeightsError where it sends something else or is silent.
        """
        async with self._one_at_a_time:
            if self._store.has(policy, version, published):
                return NOTHING_MOVED
            first = await self._ask(policy, version, published)
            if (found := checksum_of(first)) != published:
                raise WeightsError(f"{self.address} sent a header of xxh3 {found[:12]}, not {published[:12]}")
            return await self._fill(policy, version, first)

    async def _fill(self, policy: str, version: int, first: bytes) -> Pulled:
        header = parse(first)

        async def ask(index: int, base: Base) -> bytes:
            return await self._ask(policy, version, checksum_of(first), index, base.version, base.checksum)

        with ExitStack() as stack:
            writing = await _entered(stack, self._store.receiving(policy, header.layout, wait=True))
            if self._store.has(policy, version, checksum_of(first)):
                return NOTHING_MOVED
            base = self._base(policy, header.layout)
            pulled = await Transfer(header, writing.array[len(first) :], base, ask).run()
            writing.array[: len(first)] = np.frombuffer(first, np.uint8)
            writing.publish(version)
        self._store.retire(policy, newest=version)
        return replace(pulled, moved_bytes=pulled.moved_bytes + len(first))

    async def _ask(self, *words: Any) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._line.ask(*words)
        except PayloadError as error:
            raise WeightsGone(f"{self.address}: {error}") from None
        except TimeoutError:
            raise WeightsError(
                f"the weight server at {self.address} has been silent for {self._timeout_s:g} s: "
                "is it running?"
            ) from None

    def _base(self, policy: str, layout: Layout) -> Base:
        """The newest version of that layout which is here."""
        folder = self._store.folder(policy)
        for version in reversed(folder.versions()):
            try:
                with self._store.opened(policy, version) as opened:
                    if opened.header.layout == layout:
                        data = folder.view(opened.file)[opened.data_start :]
                        return _base(version, opened.header, data)
            except WeightsError:
                continue
        return NOTHING


def _base(version: int, header: Header, data: np.ndarray) -> Base:
    return Base(version=version, checksum=checksum_of(header.to_bytes()), digests=header.digests, data=data)


async def _entered(stack: ExitStack, receiving: AbstractContextManager[Writing]) -> Writing:
    """Enters in a thread, since memory may have to be made; a cancelled wait still ends inside, so that the
    stack leaves what was entered."""
    entering = asyncio.ensure_future(asyncio.to_thread(stack.enter_context, receiving))
    try:
        return await asyncio.shield(entering)
    except asyncio.CancelledError:
        await asyncio.wait({entering})
        raise
