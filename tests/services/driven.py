"""A replica over a real queue, and services of a few lines for it to drive."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from headrace.services.base import Context, Output
from headrace.services.errors import WeightsGone
from headrace.services.options import TransformOptions
from headrace.services.replica import Replica
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client, Rows, TableSpec
from tests.services.bench import NUMBERS, Remembered, context, queue


class Double:
    """Writes y = 2x, one output for all rows of a lease."""

    capacity = 8

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.closed = 0

    async def setup(self, context: Context) -> None: ...

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        self.calls.append(rows.uids.tolist())
        yield doubled(rows, rows.uids.tolist())

    async def close(self) -> None:
        self.closed += 1


def doubled(rows: Rows, uids: list[int]) -> Output:
    x = dict(zip(rows.uids.tolist(), np.asarray(rows["x"]).tolist(), strict=True))
    return Output(uids=np.array(uids), columns={"y": np.array([2 * x[uid] for uid in uids])})


class Raising(Double):
    """Raises `error` for a lease that holds one of `poison`, once the other rows are written."""

    def __init__(self, poison: set[int], error: Exception) -> None:
        super().__init__()
        self.poison, self.error = poison, error

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        self.calls.append(rows.uids.tolist())
        good = [uid for uid in rows.uids.tolist() if uid not in self.poison]
        if good:
            yield doubled(rows, good)
        if len(good) < len(rows):
            raise self.error


class Sorted(Double):
    """Writes nothing: acknowledges rows of even numbers, drops the others."""

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        odd = rows.uids % 2 == 1
        yield Output(uids=rows.uids[~odd])
        yield Output(uids=rows.uids[odd], dropped="odd")


class Halving(Double):
    """Writes what a transform makes of x."""

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        yield Output(uids=rows.uids, columns={"y": np.asarray(rows["half"])})


def half(x: int) -> dict[str, int]:
    if x == 4:
        raise ArithmeticError("four is not to be halved")
    return {"half": x // 2}


HALF = TransformOptions(function=f"{__name__}:half", columns=("x",), writes={"half": "int64"})


class Held(Double):
    """Stands in `process` until `go` is set; tells when it stands there and when it was closed early."""

    capacity = 4

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go = asyncio.Event(), asyncio.Event()
        self.interrupted = 0

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        self.calls.append(rows.uids.tolist())
        self.inside.set()
        try:
            await self.go.wait()
            yield doubled(rows, rows.uids.tolist())
        except (asyncio.CancelledError, GeneratorExit):
            self.interrupted += 1
            raise


class Begun(Held):
    """Has made something of every other row when it is closed."""

    def begun(self, uids: Iterable[int]) -> dict[int, dict[str, Any]]:
        return {uid: {"half": uid // 2} for uid in uids if uid % 2 == 0}


class Versioned(Double):
    version = -1

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[int] = []

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        self.loaded.append(version)
        self.version = version


class Store:
    """Weights by version; one of `gone` was pruned, and tells `on_gone`."""

    def __init__(self, gone: int = -1, on_gone: Any = None, error: Exception | None = None) -> None:
        self.gone, self.on_gone, self.error = gone, on_gone, error

    def take(self, policy: str, version: int, checksum: str) -> dict[str, np.ndarray]:
        if self.error is not None:
            raise self.error
        if version == self.gone:
            self.on_gone()
            raise WeightsGone(f"version {version} was pruned")
        return {"w": np.zeros(3, dtype=np.float32)}


class Bed:
    """A replica of `service` over a queue; its own client, so that what it leaves is seen from outside."""

    def __init__(self, service: Any, client: Client, own: Context, store: Store | WeightStore) -> None:
        self.client, self.report = client, cast(Remembered, own.report)
        self.replica = Replica(service, own, cast(WeightStore, store))

    async def figures(self) -> tuple[int, int, int]:
        """Rows that wait for the task, are leased by it, are in quarantine."""
        table = (await self.client.stats()).tables["numbers"]
        return table.tasks["double"].ready, table.tasks["double"].leased, table.quarantined

    async def nothing_is_leased(self) -> None:
        """Returns once that is so: a lease that was answered as its asker ended is on its way back."""
        while (await self.figures())[1]:
            pass


@asynccontextmanager
async def bed(
    service: Any,
    tmp_path: Path,
    store: Store | WeightStore | None = None,
    *,
    table: TableSpec = NUMBERS,
    transforms: tuple[TransformOptions, ...] = (),
) -> AsyncIterator[Bed]:
    async with (
        asyncio.timeout(60),
        queue(tmp_path, table) as (address, client),
        await Client.connect(address, holder="double/0") as own,
    ):
        knows = context(own, Remembered(), tmp_path, transforms=transforms)
        yield Bed(service, client, knows, store or Store())


async def checked(client: Client) -> dict[int, int]:
    """x to y of every whole row that is ready."""
    lease = await client.lease("check", 1000, timeout_s=60.0)
    x, y = np.asarray(lease.rows["x"]).tolist(), np.asarray(lease.rows["y"]).tolist()
    return dict(zip(x, y, strict=True))
