"""One table shape for all tests: prompts, a rollout that begins rows, a reward, a trainer of whole groups."""

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.transferqueue import Client, Column, Controller, TableSpec, Task
from headrace.transferqueue.state.records import Block, Entry
from headrace.transferqueue.state.table import Table

COLUMNS = (
    Column(name="prompt", dtype="list<int32>"),
    Column(name="response", dtype="list<int32>", aligned="response"),
    Column(name="versions", dtype="list<int32>", aligned="response"),
    Column(name="reward", dtype="float64"),
)


def make_spec(*, whole_groups: bool = True, **changes: Any) -> TableSpec:
    tasks = (
        Task(name="roll", reads=("prompt",), writes=("response", "versions"), kind="begin"),
        Task(name="score", reads=("response",), writes=("reward",)),
        Task(name="learn", reads=("reward",), kind="train", needs_full_group=whole_groups),
    )
    fields: dict[str, Any] = {"policy": "actor", "units_per_step": 2, "lease_s": 10.0} | changes
    return TableSpec(name="samples", columns=COLUMNS, tasks=fields.pop("tasks", tasks), **fields)


class Bench:
    """A table driven by hand: each verb is one event, at the time given by `now`."""

    def __init__(self, spec: TableSpec) -> None:
        self.now = 0.0
        self.table = Table(spec, lease_ids=itertools.count(1))
        self.block = lambda: Block(segment="s", offset=0, length=100)

    def bits(self, *names: str) -> int:
        return sum(self.table.bits[name] for name in names)

    def prompts(self, groups: int, size: int, *, first: int = 0) -> None:
        """Rows of `groups` whole groups; uid = group * size + index."""
        uids = list(range(first * size, (first + groups) * size))
        entry = Entry(
            uids=uids,
            columns=self.bits("prompt"),
            block=self.block(),
            groups=[uid // size for uid in uids],
        )
        self.table.put(self.now, entry)

    def lease(self, task: str, want: int, *, holder: str = "me", version: int | None = None) -> Any:
        held = self.table.lease(self.now, task, want, holder=holder, version=version)
        return (0, []) if held is None else (held.id, list(held.rows))

    def write(self, uids: list[int], names: tuple[str, ...], lease: int | None = None, **more: Any) -> Any:
        entry = Entry(uids=uids, columns=self.bits(*names), block=self.block(), lease=lease, **more)
        return [row.uid for row in self.table.put(self.now, entry)]

    def roll(self, want: int, version: int, *, holder: str = "r") -> list[int]:
        """Leases, writes and acknowledges rollouts; returns their uids."""
        lease, uids = self.lease("roll", want, holder=holder, version=version)
        if uids:
            self.write(uids, ("response", "versions"), lease, floors=[version] * len(uids))
            self.table.ack(lease, None)
        return uids

    def score(self, want: int = 1000) -> list[int]:
        lease, uids = self.lease("score", want, holder="s")
        if uids:
            self.write(uids, ("reward",), lease)
            self.table.ack(lease, None)
        return uids

    def learn(self, want: int = 1000, *, holder: str = "t") -> list[int]:
        return self.lease("learn", want, holder=holder)[1]

    def commit(self, step: int, uids: list[int], *, holder: str = "t") -> None:
        self.table.commit("learn", step, uids, holder=holder)


@pytest.fixture
def spec() -> Callable[..., TableSpec]:
    return make_spec


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return lambda **changes: Bench(make_spec(**changes))


@pytest.fixture
async def controller(tmp_path: Path) -> AsyncIterator[Controller]:
    async with Controller(tmp_path / "queue") as controller:
        yield controller


@pytest.fixture
async def connect(controller: Controller) -> AsyncIterator[Callable[[str], Any]]:
    clients: list[Client] = []

    async def connect(holder: str) -> Client:
        clients.append(await Client.connect(controller.address, holder=holder))
        return clients[-1]

    yield connect
    for client in clients:
        await client.close()


@pytest.fixture
def prompts() -> Callable[[int], dict[str, Any]]:
    return lambda rows: {"prompt": [np.arange(3, dtype=np.int32)] * rows}
