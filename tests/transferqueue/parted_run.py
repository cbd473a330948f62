"""A controller and a node in network namespaces of their own, the packets between them dropped for a while.

`unshare --net python -m tests.transferqueue.parted_run DIR` is the controller's host and prints what it saw;
it starts the node's host, `... parted_run DIR node`, behind a pair of virtual cables. To cut the
node off both ends take the other for a machine that is not there: packets go out and nobody picks them up.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from headrace.transferqueue import Client, Column, Controller, StorageUnit, TableSpec, Task, UnitLost

HERE, THERE = "10.77.0.1", "10.77.0.2"
ADDRESS = f"tcp://{HERE}:5577"
NOBODY = "02:00:00:00:00:99"
TIMEOUT_S = 2.0


def spec() -> TableSpec:
    columns = (Column(name="prompt", dtype="list<int32>"), Column(name="answer", dtype="list<int32>"))
    tasks = (
        Task(name="write", reads=("prompt",), writes=("answer",)),
        Task(name="read", reads=("answer",)),
    )
    return TableSpec(name="t", columns=columns, tasks=tasks)


async def node(directory: Path) -> None:
    """Puts rows 1 and 2, then row 3 while it is cut off; says so on stdout."""
    keys = directory / "keys"
    async with (
        StorageUnit(
            directory / "b", ADDRESS, node="b", address=f"tcp://{THERE}:*", keys=keys, timeout_s=TIMEOUT_S
        ),
        await Client.connect(ADDRESS, holder="there", node="b", keys=keys, timeout_s=30.0) as client,
    ):
        await client.put("t", [1, 2], {"prompt": [[1], [2]]}, groups=[1, 2])
        print("put", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await client.put("t", [3], {"prompt": [[3]]}, groups=[3])
        print("put again", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


class Cable:
    """Joins this namespace to that of a process."""

    def __init__(self, pid: int) -> None:
        self._there = ("nsenter", "-t", str(pid), "-n")
        _run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(pid))
        for inside, name, address in (((), "here", HERE), (self._there, "there", THERE)):
            _run(*inside, "ip", "addr", "add", f"{address}/24", "dev", name)
            _run(*inside, "ip", "link", "set", name, "up")

    def cut(self) -> None:
        for inside, name, peer in (((), "here", THERE), (self._there, "there", HERE)):
            _run(*inside, "ip", "neigh", "replace", peer, "lladdr", NOBODY, "nud", "permanent", "dev", name)

    def mend(self) -> None:
        for inside, name, peer in (((), "here", THERE), (self._there, "there", HERE)):
            _run(*inside, "ip", "neigh", "del", peer, "dev", name)


async def control(directory: Path) -> dict[str, object]:
    """What happened, for the test to judge."""
    _run("ip", "link", "set", "lo", "up")
    host = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", 'echo up; read go; exec "$@"', "sh", *command(directory, "node")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert host.stdin is not None and host.stdout is not None
    try:
        assert host.stdout.readline() == "up\n"
        cable = Cable(host.pid)
        return await watch(directory, host, cable)
    finally:
        host.kill()
        host.communicate()


async def watch(directory: Path, host: "subprocess.Popen[str]", cable: Cable) -> dict[str, object]:
    assert host.stdin is not None and host.stdout is not None

    hear, go = host.stdout.readline, host.stdin.write
    keys = directory / "keys"
    async with (
        Controller(directory / "q", ADDRESS, durability="disk", keys=keys),
        await Client.connect(ADDRESS, holder="driver", keys=keys, timeout_s=TIMEOUT_S) as driver,
    ):
        await driver.create(spec())
        go("start\n")
        seen: dict[str, object] = {"first": await asyncio.to_thread(hear)}
        cable.cut()
        go("put\n")
        try:
            await driver.lease("write", 2, timeout_s=60)
        except UnitLost as error:
            seen["lost"] = str(error)
        while not (await driver.stats()).tables["t"].parked:
            pass
        seen["parked"] = (await driver.stats()).tables["t"].parked
        cable.mend()
        seen["second"] = await asyncio.to_thread(hear)
        rows: dict[int, list[int]] = {}
        while len(rows) < 3:
            lease = await driver.lease("write", 3, timeout_s=60)
            cells = [cell.tolist() for cell in lease.rows["prompt"]]
            rows.update(zip(lease.rows.uids.tolist(), cells, strict=True))
            seen["attempts"] = lease.rows.attempts.tolist()
        seen["rows"] = sorted(rows.items())
        go("end\n")
        await asyncio.to_thread(host.wait)
        return seen


def command(directory: Path, *role: str) -> list[str]:
    return [sys.executable, "-m", "tests.transferqueue.parted_run", str(directory), *role]


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


def main(arguments: list[str]) -> None:
    directory = Path(arguments[0])
    if len(arguments) > 1:
        asyncio.run(node(directory))
    else:
        print(json.dumps(asyncio.run(control(directory))))


if __name__ == "__main__":
    main(sys.argv[1:])
