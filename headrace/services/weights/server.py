"""Serves the versions of a node's store to other nodes, a bucket at a time.

    async with WeightServer(store, address="tcp://10.0.0.2:*", keys=keys) as server:
        ...                                      # server.address names the real port

Who has another version gets what changed, where that is less. Invariant: what is sent is of a version with
the checksum that was asked for; nothing is kept between two questions, so that no asker holds up a trainer.
"""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import zmq

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.weights.layout import Bucket
from headrace.services.weights.patches import between, whole
from headrace.services.weights.store import Opened, WeightStore
from headrace.transferqueue.errors import WireError
from headrace.transferqueue.link.addresses import require_local
from headrace.transferqueue.link.keys import server_options
from headrace.transferqueue.link.lines import bind, open_socket
from headrace.transferqueue.link.port import Port
from headrace.transferqueue.link.wire import pack, unpack

MAX_REQUEST_BYTES = 4096
NO_BASE = -1
"""In the place of the version that an asker has."""
_POLICY = re.compile(r"[\w-][\w.-]*")
_AT_ONCE = 4
"""Answers that are made at the same time."""


class WeightServer:
    """One per node that has weights; `keys`: the run's, for an address beyond this machine."""

    def __init__(
        self,
        store: WeightStore,
        *,
        address: str = "tcp://127.0.0.1:*",
        keys: Path | None = None,
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        if keys is None:
            require_local(address)
        self.address = address
        self._store = store
        self._keys = keys
        self._context = context or zmq.Context.instance()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._answering: set[asyncio.Task[None]] = set()
        self._port: Port

    async def __aenter__(self) -> "WeightServer":
        options = {} if self._keys is None else server_options(self._keys)
        socket = open_socket(self._context, zmq.ROUTER, max_bytes=MAX_REQUEST_BYTES, options=options)
        self.address = bind(socket, self.address, who="the weight server")
        self._port = Port(socket, self._on_message)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._port.close(linger_ms=0)
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def _on_message(self, frames: list[bytes]) -> None:
        try:
            question = unpack(frames[-1])
        except WireError:
            return
        match question:
            case [int(number), str(policy), int(version), str(checksum)]:
                self._answer(frames[0], number, lambda: self.header(policy, version, checksum))
            case [int(number), str(policy), int(version), str(checksum), int(index), int(base), str(of_base)]:
                self._answer(
                    frames[0],
                    number,
                    lambda: self.bucket(policy, version, checksum, index, base=base, base_checksum=of_base),
                )

    def _answer(self, asker: bytes, number: int, make: Callable[[], bytes]) -> None:
        task = asyncio.create_task(self._made(asker, number, make))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _made(self, asker: bytes, number: int, make: Callable[[], bytes]) -> None:
        async with self._turns:
            try:
                error, data = "", await asyncio.to_thread(make)
            except (WeightsError, OSError) as failed:
                error, data = str(failed), b""
        if not self._port.closed:
            self._port.send([asker, pack([number, error]), data])

    def header(self, policy: str, version: int, checksum: str) -> bytes:
        """Raises WeightsError where there is no such version."""
        with self._store.opened(_named(policy), version, checksum) as opened:
            return opened.header.to_bytes()

    def bucket(
        self, policy: str, version: int, checksum: str, index: int, *, base: int, base_checksum: str
    ) -> bytes:
        """The patch that makes a bucket of a version, from that of `base` where it is still here. Raises
        WeightsError where there is no such version or bucket."""
        with self._store.opened(_named(policy), version, checksum) as opened:
            buckets = opened.header.layout.buckets()
            if not 0 <= index < len(buckets):
                raise WeightsError(
                    f"version {version} of {policy!r} has {len(buckets)} buckets, none is {index}"
                )
            new = _bytes(opened, buckets[index])
            if base == NO_BASE:
                return whole(new)
            try:
                with self._store.opened(policy, base, base_checksum) as old:
                    if old.header.layout == opened.header.layout:
                        return between(_bytes(old, buckets[index]), new, buckets[index].width)
            except WeightsError:
                return whole(new)
            return whole(new)


def _named(policy: str) -> str:
    if not _POLICY.fullmatch(policy):
        raise WeightsGone(f"{policy!r} is no policy's name")
    return policy


def _bytes(opened: Opened, bucket: Bucket) -> np.ndarray:
    return np.frombuffer(os.pread(opened.file, bucket.size, opened.data_start + bucket.start), np.uint8)
