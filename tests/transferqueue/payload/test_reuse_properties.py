"""Random lives of writers and readers: whatever happens, what is looked at stays as it was put."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.transferqueue import Client, Column, Controller, TableSpec, Task, WaitTimeout

MIB = 1 << 20
LIMIT_BYTES = 256 * MIB


class Lives:
    """Two writers and three readers; some readers keep views of rows that have left long ago."""

    def __init__(self, controller: Controller, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.controller = controller
        self.clients: dict[str, Client] = {}
        self.looks: list[tuple[int, Any]] = []
        self.next_uid = 0
        self.names: set[str] = set()
        self.inodes: set[int] = set()

    async def client(self, name: str) -> Client:
        if name not in self.clients:
            self.clients[name] = await Client.connect(self.controller.address, holder=name)
        return self.clients[name]

    async def put(self) -> None:
        writer = await self.client(self.chance.choice(["w0", "w1"]))
        uids = list(range(self.next_uid, self.next_uid + self.chance.randint(1, 3)))
        self.next_uid += len(uids)
        cells = [np.full(self.chance.randint(1, 5 * MIB), uid % 127, np.int8) for uid in uids]
        await writer.put("t", uids, {"x": cells}, groups=uids)

    async def take(self) -> None:
        """`r2` writes to what it reads, and keeps nothing."""
        name = self.chance.choice(["r0", "r1", "r2"])
        reader, writes = await self.client(name), name == "r2"
        task = "see" if writes else self.chance.choice(["eat", "see"])
        try:
            lease = await reader.lease(task, self.chance.randint(1, 4), timeout_s=0.001)
        except WaitTimeout:
            return
        kept = not writes and self.chance.random() < 0.5
        cells = lease.rows.torch("x") if writes or self.chance.random() < 0.3 else lease.rows["x"]
        for uid, cell in zip(lease.rows.uids.tolist(), cells, strict=True):
            self.check_cell(uid, cell)
            if writes:
                cell[:: self.chance.randint(1, 9000)] = -1
            elif kept:
                self.looks.append((uid, cell))
        await reader.ack(lease)

    async def look_away(self) -> None:
        self.chance.shuffle(self.looks)
        del self.looks[self.chance.randint(0, len(self.looks)) :]

    async def lose(self) -> None:
        """One is evicted or closes, and another takes its place; its views stay."""
        name = self.chance.choice(["r0", "r1", "r2", "w0", "w1"])
        lost = self.clients.pop(name, None)
        if lost is not None and self.chance.random() < 0.5:
            await (await self.client("supervisor")).evict(name, "lost")
        if lost is not None:
            await lost.close()

    def check_cell(self, uid: int, cell: Any) -> None:
        assert {int(cell.min()), int(cell.max())} == {uid % 127}

    def check(self) -> None:
        for uid, cell in self.looks:
            self.check_cell(uid, cell)
        found = {path.name: path.stat().st_ino for path in self.directory.iterdir()}
        self.names |= {name for name in found if name.endswith(".arrows")}
        self.inodes |= set(found.values())
        idle = [path.stat().st_blocks * 512 for path in self.directory.glob("*.spare")]
        assert sum(idle) <= LIMIT_BYTES


@pytest.mark.parametrize("seed", range(3))
async def test_a_view_is_what_was_put_whatever_comes_after(tmp_path: Path, seed: int) -> None:
    columns = (Column(name="x", dtype="list<int8>"),)
    tasks = (Task(name="eat", reads=("x",)), Task(name="see", reads=("x",)))
    async with Controller(tmp_path / "queue") as controller:
        lives = Lives(controller, tmp_path / "queue", seed)
        await (await lives.client("supervisor")).create(TableSpec(name="t", columns=columns, tasks=tasks))
        steps: list[Callable[[], Awaitable[None]]] = [lives.put, lives.take, lives.look_away, lives.lose]
        for _ in range(150):
            await lives.chance.choices(steps, [30, 60, 10, 3])[0]()
            lives.check()
        assert len(lives.inodes) < len(lives.names), "some file was written again"
        for client in lives.clients.values():
            await client.close()
        lives.check()
