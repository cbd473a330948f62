"""Versions come from whichever node has them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.weights import WeightStore
from headrace.services.weights.peers import Peers, list_peers
from headrace.services.weights.server import WeightServer

WEIGHTS = {"w": torch.arange(4.0)}


@contextmanager
def peers(
    folder: Path, addresses: list[str], *, timeout_s: float = 60.0
) -> Iterator[tuple[WeightStore, Peers]]:
    """Of the node `here`."""
    listed, here = folder / "peers.json", WeightStore(folder / "here")
    list_peers(listed, addresses)
    with closing(Peers(here, listed, timeout_s=60.0)) as made:
        yield here, made


async def test_a_version_is_brought_from_the_node_that_has_it(tmp_path: Path) -> None:
    empty, made = WeightStore(tmp_path / "a"), WeightStore(tmp_path / "b")
    checksum = made.write("actor", 3, WEIGHTS)
    async with WeightServer(empty) as first, WeightServer(made) as second:
        with peers(tmp_path, [first.address, second.address]) as (here, known):
            assert (await known.bring("actor", 3, checksum)).buckets == 1
            assert torch.equal(here.read("actor", 3, checksum)["w"], WEIGHTS["w"])


async def test_what_is_here_is_asked_of_nobody(tmp_path: Path) -> None:
    with peers(tmp_path, [f"ipc://{tmp_path}/nobody"]) as (here, known):
        checksum = here.write("actor", 0, WEIGHTS)
        assert (await known.bring("actor", 0, checksum)).moved_bytes == 0


async def test_what_no_node_has_is_gone(tmp_path: Path) -> None:
    async with WeightServer(WeightStore(tmp_path / "a")) as server:
        with peers(tmp_path, [server.address]) as (_, known):
            with pytest.raises(WeightsGone, match=rf"version 0 of 'actor'; asked were {server.address}"):
                await known.bring("actor", 0, "0" * 32)
            list_peers(tmp_path / "peers.json", [])
            with pytest.raises(WeightsGone, match="asked were none"):
                await known.bring("actor", 0, "0" * 32)


class Lies(WeightServer):
    def header(self, policy: str, version: int, checksum: str) -> bytes:
        return b"something else"


async def test_a_node_that_fails_is_an_error_where_no_other_has_the_version(tmp_path: Path) -> None:
    made = WeightStore(tmp_path / "a")
    checksum = made.write("actor", 0, WEIGHTS)
    async with Lies(made) as failing, WeightServer(made) as server:
        with peers(tmp_path, [failing.address, server.address]) as (here, known):
            with pytest.raises(WeightsError, match="sent a header of xxh3"):
                await known.bring("actor", 1, "0" * 32)
            await known.bring("actor", 0, checksum)
            assert here.has("actor", 0, checksum)


async def test_a_node_that_is_listed_no_more_is_not_asked(tmp_path: Path) -> None:
    made = WeightStore(tmp_path / "a")
    checksum = made.write("actor", 0, WEIGHTS)
    async with Lies(made) as failing, WeightServer(WeightStore(tmp_path / "b")) as empty:
        with peers(tmp_path, [failing.address]) as (_, known):
            with pytest.raises(WeightsError, match="sent a header of xxh3"):
                await known.bring("actor", 0, checksum)
            list_peers(tmp_path / "peers.json", [empty.address])
            with pytest.raises(WeightsGone):
                await known.bring("actor", 0, checksum)


async def test_two_processes_of_a_node_bring_a_version_once(tmp_path: Path) -> None:
    made = WeightStore(tmp_path / "a")
    checksum = made.write("actor", 0, WEIGHTS)
    async with WeightServer(made) as server:
        with (
            peers(tmp_path, [server.address]) as (here, one),
            peers(tmp_path, [server.address]) as (_, other),
        ):
            pulled = [await one.bring("actor", 0, checksum), await other.bring("actor", 0, checksum)]
            assert [each.buckets for each in pulled] == [1, 0]
            assert len(list((tmp_path / "here" / "actor").iterdir())) == 1
            assert here.has("actor", 0, checksum)
