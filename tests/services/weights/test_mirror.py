"""Weights from one node to another: two stores, one line between them."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.weights import WeightStore
from headrace.services.weights.folder import Writing
from headrace.services.weights.layout import Layout
from headrace.services.weights.mirror import WeightMirror
from headrace.services.weights.server import WeightServer
from headrace.services.weights.transfer import Pulled
from headrace.transferqueue.errors import Refused
from headrace.transferqueue.link.keys import make_keys

BUCKET = 2 << 20
"""Elements of float32."""
HEADER = 4096


def weights(buckets: int = 3) -> dict[str, torch.Tensor]:
    return {"w": torch.arange(buckets * BUCKET, dtype=torch.float32)}


class Nodes:
    """Two of them: `there` is the trainer's, `here` has what the mirror brings."""

    def __init__(self, there: WeightStore, here: WeightStore, mirror: WeightMirror) -> None:
        self.there, self.here, self.mirror = there, here, mirror

    def write(self, version: int, tensors: dict[str, torch.Tensor]) -> str:
        return self.there.write("actor", version, tensors)

    async def pull(self, version: int, checksum: str) -> Pulled:
        return await self.mirror.pull("actor", version, checksum)


@asynccontextmanager
async def nodes(tmp_path: Path, serves: type[WeightServer] = WeightServer) -> AsyncIterator[Nodes]:
    there, here = WeightStore(tmp_path / "there"), WeightStore(tmp_path / "here")
    async with serves(there) as server:
        mirror = WeightMirror(here, server.address, timeout_s=60)
        try:
            yield Nodes(there, here, mirror)
        finally:
            mirror.close()


async def test_a_version_comes_over_whole_and_is_read_as_on_its_own_node(tmp_path: Path) -> None:
    async with nodes(tmp_path) as two:
        checksum = two.write(4, weights())
        pulled = await two.pull(4, checksum)
        assert pulled == Pulled(moved_bytes=HEADER + 3 * (1 + 4 * BUCKET), buckets=3, sparse=0, at_hand=0)
        assert torch.equal(two.here.read("actor", 4, checksum)["w"], weights()["w"])


async def test_of_the_next_version_only_what_changed_comes_over(tmp_path: Path) -> None:
    """Of the first bucket two elements: 32 blocks' counts, and 6 bytes each; of the last one all."""
    async with nodes(tmp_path) as two:
        tensors = weights()
        await two.pull(0, two.write(0, tensors))
        tensors["w"][[0, 70_000]] = torch.tensor([-0.0, float("nan")])
        tensors["w"][2 * BUCKET :] += 1
        checksum = two.write(1, tensors)
        pulled = await two.pull(1, checksum)
        assert pulled == Pulled(
            moved_bytes=HEADER + (1 + 32 * 4 + 2 * 6) + (1 + 4 * BUCKET), buckets=3, sparse=1, at_hand=1
        )
        read = two.here.read("actor", 1, checksum)["w"]
        assert read.view(torch.int32).equal(tensors["w"].view(torch.int32))


async def test_a_node_too_far_behind_is_sent_all_that_differs_whole(tmp_path: Path) -> None:
    async with nodes(tmp_path) as two:
        tensors = weights()
        await two.pull(0, two.write(0, tensors))
        tensors["w"][0] = 1.0
        checksums = [two.write(version, tensors) for version in range(1, 4)]
        pulled = await two.pull(3, checksums[-1])
        assert (pulled.sparse, pulled.at_hand) == (0, 2)
        assert pulled.moved_bytes == HEADER + 1 + 4 * BUCKET


async def test_a_version_that_is_here_is_not_asked_for_again(tmp_path: Path) -> None:
    async with nodes(tmp_path) as two:
        checksum = two.write(0, weights(1))
        await two.pull(0, checksum)
        assert (await two.pull(0, checksum)).moved_bytes == 0


class EndsAfterTwo(WeightServer):
    """Four buckets are asked for at a time: the sixth once the first two have arrived."""

    def __init__(self, store: WeightStore) -> None:
        super().__init__(store)
        self._two_arrived = Event()

    def bucket(self, policy: str, version: int, checksum: str, index: int, **base: Any) -> bytes:
        if index >= 2:
            if index == 5:
                self._two_arrived.set()
            self._two_arrived.wait(60)
            raise WeightsGone("the node is going down")
        return super().bucket(policy, version, checksum, index, **base)


async def test_a_pull_that_was_cut_off_is_taken_up_by_another_mirror(tmp_path: Path) -> None:
    async with nodes(tmp_path, EndsAfterTwo) as two:
        checksum = two.write(0, weights(6))
        with pytest.raises(WeightsGone, match="the node is going down"):
            await two.pull(0, checksum)
        with pytest.raises(WeightsGone, match=r"version 0 of 'actor' was pruned; have \[\]"):
            two.here.read("actor", 0, checksum)
    async with nodes(tmp_path) as two:
        pulled = await two.pull(0, checksum)
        assert pulled == Pulled(moved_bytes=HEADER + 4 * (1 + 4 * BUCKET), buckets=6, sparse=0, at_hand=2)
        assert torch.equal(two.here.read("actor", 0, checksum)["w"], weights(6)["w"])


async def test_a_pull_that_is_cancelled_as_it_begins_leaves_the_folder_to_the_next(tmp_path: Path) -> None:
    async with nodes(tmp_path) as two:
        checksum = two.write(0, weights(1))
        entered, go = Event(), Event()

        class Slow(WeightStore):
            @contextmanager
            def receiving(self, policy: str, layout: Layout, *, wait: bool = False) -> Iterator[Writing]:
                entered.set()
                go.wait(60)
                with super().receiving(policy, layout, wait=wait) as writing:
                    yield writing

        mirror = WeightMirror(Slow(tmp_path / "here"), two.mirror.address, timeout_s=60)
        pulling = asyncio.create_task(mirror.pull("actor", 0, checksum))
        await asyncio.to_thread(entered.wait, 60)
        pulling.cancel()
        go.set()
        await asyncio.wait({pulling})
        mirror.close()
        assert pulling.cancelled()
        assert (await two.pull(0, checksum)).buckets == 1


async def test_a_base_that_is_damaged_costs_bytes_and_nothing_else(tmp_path: Path) -> None:
    async with nodes(tmp_path) as two:
        tensors = weights(2)
        await two.pull(0, two.write(0, tensors))
        with two.here.folder("actor").path(0).open("r+b") as file:
            file.seek(HEADER + 100)
            file.write(b"\xff")
            file.seek(HEADER + 4 * BUCKET + 100)
            file.write(b"\xff")
        tensors["w"][0] = 1.0
        checksum = two.write(1, tensors)
        pulled = await two.pull(1, checksum)
        sparse = 1 + 32 * 4 + 6
        assert pulled.moved_bytes == HEADER + sparse + 2 * (1 + 4 * BUCKET) + (1 + 32 * 4)
        assert torch.equal(two.here.read("actor", 1, checksum)["w"], tensors["w"])


class Lies(WeightServer):
    def bucket(self, policy: str, version: int, checksum: str, index: int, **base: Any) -> bytes:
        honest = super().bucket(policy, version, checksum, index, **base)
        return honest[:-1] + bytes([honest[-1] ^ 1])


async def test_bytes_that_were_not_published_are_refused_and_no_version_is_made(tmp_path: Path) -> None:
    async with nodes(tmp_path, Lies) as two:
        checksum = two.write(0, weights(1))
        with pytest.raises(WeightsError, match="bucket 0, of w, came with another digest"):
            await two.pull(0, checksum)
        assert two.here.folder("actor").versions() == []


async def test_what_the_server_has_not_is_gone(tmp_path: Path) -> None:
    async with nodes(tmp_path) as two:
        checksum = two.write(0, weights(1))
        with pytest.raises(WeightsGone, match=r"version 1 of 'actor' was pruned; have \[0\]"):
            await two.pull(1, checksum)
        with pytest.raises(WeightsGone, match="but 000000000000 was published"):
            await two.pull(0, "0" * 32)
        with pytest.raises(WeightsGone, match=r"'\.\./actor' is no policy's name"):
            await two.mirror.pull("../actor", 0, checksum)


async def test_a_silent_server_is_said_to_be_silent(tmp_path: Path) -> None:
    mirror = WeightMirror(WeightStore(tmp_path), f"ipc://{tmp_path}/nobody", timeout_s=0.01)
    try:
        with pytest.raises(WeightsError, match=r"has been silent for 0\.01 s: is it running\?"):
            await mirror.pull("actor", 0, "0" * 32)
    finally:
        mirror.close()


async def test_a_server_that_others_can_reach_needs_keys(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not local"):
        WeightServer(WeightStore(tmp_path), address="tcp://0.0.0.0:*")


async def test_with_the_runs_keys_weights_are_sent_under_them(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    make_keys(keys)
    there, here = WeightStore(tmp_path / "there"), WeightStore(tmp_path / "here")
    checksum = there.write("actor", 0, weights(1))
    async with WeightServer(there, keys=keys) as server:
        mirror = WeightMirror(here, server.address, timeout_s=60, keys=keys)
        try:
            await mirror.pull("actor", 0, checksum)
        finally:
            mirror.close()
    assert here.read("actor", 0, checksum)


SERVES = """
import asyncio, sys
from pathlib import Path
from headrace.services.weights import WeightStore
from headrace.services.weights.server import WeightServer

async def main():
    async with WeightServer(WeightStore(Path(sys.argv[1]))) as server:
        print(server.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def test_two_processes_pass_weights_between_their_folders(tmp_path: Path) -> None:
    checksum = WeightStore(tmp_path / "there").write("actor", 0, weights(2))
    here = WeightStore(tmp_path / "here")
    command = [sys.executable, "-c", SERVES, str(tmp_path / "there")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            mirror = WeightMirror(here, served.stdout.readline().strip(), timeout_s=60)
            try:
                assert (await mirror.pull("actor", 0, checksum)).buckets == 2
            finally:
                mirror.close()
        finally:
            served.kill()
    assert torch.equal(here.read("actor", 0, checksum)["w"], weights(2)["w"])
