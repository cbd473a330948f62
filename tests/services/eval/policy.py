"""A policy as its trainer publishes it, and a report that can be waited for."""

import asyncio
from collections.abc import Mapping
from typing import Any

import torch

from headrace.services.weights import WeightStore
from headrace.transferqueue import Client
from tests.services.bench import Remembered


class Heard(Remembered):
    def __init__(self) -> None:
        super().__init__()
        self._new = asyncio.Event()

    def event(self, kind: str, **detail: Any) -> None:
        super().event(kind, **detail)
        self._new.set()

    async def said(self, kind: str, count: int) -> None:
        """Returns once events of that kind are so many."""
        async with asyncio.timeout(60):
            while len(self.of(kind)) < count:
                self._new.clear()
                await self._new.wait()


class Published:
    """Writes and publishes versions of the policy `actor`."""

    def __init__(self, client: Client, store: WeightStore) -> None:
        self._client = client
        self._store = store
        self.checksums: dict[int, str] = {}

    async def __call__(
        self, version: int, weights: Mapping[str, Any] | None = None, *, checksum: str | None = None
    ) -> None:
        """`checksum`: told instead of the true one."""
        made = weights or {"w": torch.full((2,), float(version))}
        self.checksums[version] = self._store.write("actor", version, made)
        await self._client.publish("actor", version, checksum or self.checksums[version])
