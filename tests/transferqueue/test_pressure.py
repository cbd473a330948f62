"""A producer that is faster than its consumer waits; nothing grows."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from headrace.transferqueue import Column, Controller, TableSpec, Task, WaitTimeout
from tests.transferqueue.pressed_run import ROWS

Make = Callable[..., Any]
KIB = 1024
ROOT = Path(__file__).parents[2]


def table(**limits: Any) -> TableSpec:
    columns = (Column(name="x", dtype="uint8", shape=(64 * KIB,)),)
    return TableSpec(name="t", columns=columns, tasks=(Task(name="eat", reads=("x",)),), **limits)


async def test_a_table_full_of_bytes_holds_its_producer(connect: Make) -> None:
    """A32: blocks of 65,536 bytes and a header fit three times into 256 KiB, not four."""
    client = await connect("p")
    await client.create(table(max_bytes=256 * KIB))
    cells = np.zeros((1, 64 * KIB), np.uint8)
    for uid in range(3):
        await client.put("t", [uid], {"x": cells}, groups=[uid])
    with pytest.raises(WaitTimeout, match=r"it holds 3 of 65536 rows and .* of 262144 bytes"):
        await client.put("t", [3], {"x": cells}, groups=[3], timeout_s=0.01)
    lease = await client.lease("eat", 1, timeout_s=60)
    await client.ack(lease)
    await client.put("t", [3], {"x": cells}, groups=[3], timeout_s=60)
    assert (await client.stats()).tables["t"].rows == 3


@pytest.mark.slow
async def test_a_producer_twice_as_fast_as_its_consumer_keeps_memory_bounded(
    controller: Controller, connect: Make, tmp_path: Path
) -> None:
    """Twice the rows are offered for each that is taken; 20,000 rows of 64 KiB pass through 8 MiB."""
    producer, consumer = await connect("p"), await connect("c")
    await producer.create(table(max_bytes=8 << 20))
    cells = np.zeros((20, 64 * KIB), np.uint8)

    async def produce() -> None:
        for first in range(0, 20_000, 20):
            uids = np.arange(first, first + 20)
            await producer.put("t", uids, {"x": cells}, groups=uids, timeout_s=60)

    async def consume(rows: int) -> None:
        taken = 0
        while taken < rows:
            lease = await consumer.lease("eat", 10, timeout_s=60)
            taken += len(lease)
            await consumer.ack(lease)

    producing = asyncio.create_task(produce())
    await consume(2000)
    resident, segments = _resident(), _stored(tmp_path)
    await consume(18_000)
    await producing
    assert _stored(tmp_path) <= max(segments, 3 * (32 << 20))
    assert _resident() - resident < 64 << 20
    table_ = (await producer.stats()).tables["t"]
    assert (table_.created, table_.finished, table_.bytes, table_.lost) == (20_000, 20_000, 0, 0)


@pytest.fixture
def shared_memory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="headrace-test-", dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory)


class Cast:
    """The processes of a run under pressure; each is started once the one before it has said a line."""

    def __init__(self, directory: Path, node: str) -> None:
        self._directory = directory
        self._node = node
        self._address = "-"
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, role: str) -> str:
        directory = self._directory / (self._node if role == "unit" else "queue")
        arguments = [role, self._address, str(directory), self._node]
        self.processes[role] = subprocess.Popen(
            [sys.executable, "-m", "tests.transferqueue.pressed_run", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.hear(role)
        self._address = line if role == "control" else self._address
        return line

    def hear(self, role: str) -> str:
        stdout = self.processes[role].stdout
        assert stdout is not None
        return stdout.readline().strip()

    def resident(self, role: str) -> int:
        """Memory of its own: segments that it has mapped are counted where they lie."""
        memory = psutil.Process(self.processes[role].pid).memory_info()
        return memory.rss - memory.shared

    def close(self) -> None:
        for process in reversed(self.processes.values()):
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("node", ["", "b"])
def test_controller_unit_and_producer_stay_as_small_as_they_were_over_thirty_thousand_rows(
    shared_memory: Path, node: str
) -> None:
    """480 MB pass through a table of 8 MiB; looked at after every thousand rows."""
    cast = Cast(shared_memory, node)
    held = ["control", "unit", "produce"] if node else ["control", "produce"]
    try:
        for role in (*held, "consume"):
            cast.start(role)
        sizes: list[dict[str, int]] = []
        stored: list[int] = []
        while told := cast.hear("consume"):
            if int(told) < ROWS:
                sizes.append({role: cast.resident(role) for role in held})
                stored.append(_stored(shared_memory))
        assert cast.processes["consume"].wait() == 0
    finally:
        cast.close()
    assert len(sizes) == ROWS // 1000 - 2, "the first line said that it had begun"
    for role in held:
        assert max(size[role] for size in sizes[10:]) - sizes[9][role] < 8 << 20, role
    assert max(stored) <= 3 * (32 << 20)


def _resident() -> int:
    return psutil.Process(os.getpid()).memory_info().rss


def _stored(directory: Path) -> int:
    """Bytes of the segments; one that is renamed or removed meanwhile is not there to be counted."""
    sizes = 0
    for path in directory.rglob("*.arrows"):
        with suppress(FileNotFoundError):
            sizes += path.stat().st_blocks * 512
    return sizes
