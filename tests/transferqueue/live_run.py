"""A live durable run whose processes are killed on the way: `live_run DIR KILLS SEED [POINT | nodes]`.

Every process tells of each operation by one byte on a pipe; the parent kills a random one with SIGKILL after
a random number of bytes, and starts it again. With POINT, a process kills itself there, inside of an
operation, after a random number of passes. With `nodes` the worker is on a node of its own, and the storage
units of both nodes are killed as well. The run ends once the trainer has committed all steps.
"""

import asyncio
import itertools
import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from headrace.transferqueue import (
    Client,
    Column,
    Controller,
    EndOfData,
    LeaseLost,
    Refused,
    RowsGone,
    StorageUnit,
    TableSpec,
    Task,
)
from headrace.transferqueue.link.addresses import read_address

STEPS, UNITS, GROUP = 120, 2, 2
PATIENCE_S = 40
Tell = Callable[[], None]
Fault = Callable[[str], None]


def spec() -> TableSpec:
    return TableSpec(
        name="samples",
        columns=(
            Column(name="prompt", dtype="list<int32>"),
            Column(name="response", dtype="list<int32>", aligned="response"),
            Column(name="versions", dtype="list<int32>", aligned="response"),
        ),
        tasks=(
            Task(name="roll", reads=("prompt",), writes=("response", "versions"), kind="begin"),
            Task(name="learn", reads=("prompt", "response"), kind="train", needs_full_group=True),
        ),
        policy="actor",
        units_per_step=UNITS,
        staleness=1.0,
        max_rows=16,
        max_attempts=10_000,
        lease_s=30.0,
    )


async def control(directory: Path, tell: Tell, fault: Fault) -> None:
    def at(point: str) -> None:
        tell()
        fault(point)

    controller = Controller(directory, durability="disk", fsync="never", fault=at)
    await controller.start()
    tell()
    await controller.closed()


async def serve(directory: Path, node: str, tell: Tell) -> None:
    address = read_address(directory)
    assert address is not None
    place = directory / node if node else directory
    host = "127.0.0.2" if node else "127.0.0.1"
    async with StorageUnit(
        place, address, node=node, address=f"tcp://{host}:*", timeout_s=PATIENCE_S
    ) as unit:
        tell()
        await unit.closed()


async def produce(client: Client, tell: Tell) -> None:
    await client.create(spec())
    for group in range(STEPS * UNITS):
        uids = np.arange(group * GROUP, (group + 1) * GROUP)
        try:
            await client.put(
                "samples",
                uids,
                {"prompt": [np.full(3, uid, np.int32) for uid in uids]},
                groups=[group] * GROUP,
            )
        except RowsGone:
            continue
        tell()
    await client.end("samples")


async def roll(client: Client, tell: Tell) -> None:
    while True:
        version = (await client.published("actor", after=-1, timeout_s=PATIENCE_S)).version
        try:
            lease = await client.lease("roll", GROUP, version=version, timeout_s=0.05)
        except TimeoutError:
            continue
        except EndOfData:
            return
        tell()
        cells = [np.full(4, prompt[0], np.int32) for prompt in lease.rows["prompt"]]
        versions = [np.full(4, version, np.int32)] * len(cells)
        try:
            await client.put(
                "samples", lease.rows.uids, {"response": cells, "versions": versions}, lease=lease
            )
            tell()
            await client.ack(lease)
        except LeaseLost:
            continue


async def learn(client: Client, tell: Tell) -> None:
    await client.create(spec())
    due = (await client.stats()).tables["samples"].step
    await client.publish("actor", due, f"weights {due}")
    for step in range(due, STEPS):
        uids: list[int] = []
        while len(uids) < UNITS * GROUP:
            lease = await client.lease("learn", UNITS * GROUP - len(uids), version=step, timeout_s=PATIENCE_S)
            tell()
            for uid, response in zip(lease.rows.uids, lease.rows["response"], strict=True):
                assert response.tolist() == [uid] * 4
            uids += lease.rows.uids.tolist()
        await client.commit("learn", step, uids)
        tell()
        await client.publish("actor", step + 1, f"weights {step + 1}")


ROLES: dict[str, Callable[[Client, Tell], Awaitable[None]]] = {
    "produce": produce,
    "roll": roll,
    "learn": learn,
}


UNITS_OF = {"unit": "b", "home": ""}
"""Storage units by role."""


async def play(role: str, directory: Path, tell: Tell, fault: Fault, node: str) -> None:
    """A client's part; what the last holder of its name held goes back first."""
    address = read_address(directory)
    assert address is not None
    async with await Client.connect(address, holder=f"before {role}", timeout_s=PATIENCE_S) as reaper:
        await reaper.evict(role, "killed")
    async with await joined(address, role, fault, node) as client:
        await ROLES[role](client, tell)


async def joined(address: str, role: str, fault: Fault, node: str) -> Client:
    """A client, once the unit of its node is known: a controller that was killed early never heard of it."""
    last = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await Client.connect(address, holder=role, timeout_s=PATIENCE_S, fault=fault, node=node)
        except Refused:
            if not node or time.monotonic() > last:
                raise
            await asyncio.sleep(0.05)


class Cast:
    """The processes, each forked from this one, where everything is imported and no thread runs."""

    def __init__(self, directory: Path, *, nodes: bool = False) -> None:
        self._directory = directory
        self.roles = (*(UNITS_OF if nodes else ()), *ROLES)
        self._node = "b" if nodes else ""
        self.reading, self._writing = os.pipe()
        self._pids: dict[str, int] = {}

    def start(self, role: str, fault: Fault = lambda point: None) -> None:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._be(role, fault)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        self._pids[role] = pid

    def _be(self, role: str, fault: Fault) -> None:
        def tell() -> None:
            os.write(self._writing, b".")

        if role == "control":
            asyncio.run(control(self._directory, tell, fault))
        elif role in UNITS_OF:
            asyncio.run(serve(self._directory, UNITS_OF[role], tell))
        else:
            node = self._node if role == "roll" else ""
            asyncio.run(play(role, self._directory, tell, fault, node))

    def kill(self, role: str) -> None:
        os.kill(self._pids[role], signal.SIGKILL)
        os.waitpid(self._pids.pop(role), 0)

    def wait_for(self, operations: int) -> None:
        """Returns after that many, or when the trainer has ended."""
        while operations > 0 and not self.ended("learn"):
            ready, _, _ = select.select([self.reading], [], [], 1.0)
            operations -= len(os.read(self.reading, operations)) if ready else 0

    def ended(self, role: str) -> bool:
        if role not in self._pids:
            return True
        pid, status = os.waitpid(self._pids[role], os.WNOHANG)
        if pid:
            del self._pids[role]
            assert status == 0, f"{role} failed"
        return bool(pid)

    def wait_for_death(self, role: str) -> bool:
        """Whether the role killed itself before the trainer ended."""
        while not self.ended("learn"):
            ready, _, _ = select.select([self.reading], [], [], 1.0)
            if ready:
                os.read(self.reading, 1 << 16)
            pid, status = os.waitpid(self._pids[role], os.WNOHANG) if role in self._pids else (0, 0)
            if pid:
                del self._pids[role]
                if os.WIFSIGNALED(status):
                    return True
        return False

    def close(self) -> None:
        for role in list(self._pids):
            self.kill(role)


def run(directory: Path, kills: int, chance: random.Random, *, nodes: bool) -> int:
    """Returns the number of kills that were made before the end."""
    cast = Cast(directory, nodes=nodes)
    made = 0
    try:
        cast.start("control")
        os.read(cast.reading, 1)
        for role in cast.roles:
            cast.start(role)
            if role in UNITS_OF:
                os.read(cast.reading, 1)
        while not cast.ended("learn"):
            cast.wait_for(chance.randint(1, 30) if made < kills else 1 << 30)
            victim = chance.choice(["control", "control", *cast.roles])
            if made < kills and not cast.ended("learn") and not cast.ended(victim):
                cast.kill(victim)
                cast.start(victim)
                made += 1
    finally:
        cast.close()
    return made


def run_to_point(directory: Path, kills: int, chance: random.Random, point: str) -> int:
    """The same with a process that kills itself at `point`."""
    victim = "produce" if point.startswith("payload") else "control"

    def fault() -> Fault:
        left = itertools.count(chance.randint(0, 4), -1)
        return lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == point and next(left) == 0 else None

    cast = Cast(directory)
    made = 0
    try:
        cast.start("control", *([fault()] if victim == "control" else []))
        os.read(cast.reading, 1)
        for role in ROLES:
            cast.start(role, *([fault()] if victim == role else []))
        while cast.wait_for_death(victim):
            made += 1
            cast.start(victim, *([fault()] if made < kills else []))
    finally:
        cast.close()
    return made


def main(arguments: list[str]) -> None:
    directory, kills, seed = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    chance = random.Random(seed)
    point = arguments[3] if len(arguments) > 3 else ""
    if point in ("", "nodes"):
        print(run(directory, kills, chance, nodes=bool(point)))
    else:
        print(run_to_point(directory, kills, chance, point))


if __name__ == "__main__":
    main(sys.argv[1:])
