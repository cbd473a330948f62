"""Which versions are taken, over a real queue and real files."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.eval.due import Due
from headrace.services.eval.following import Following
from headrace.services.faults import damage
from headrace.services.models.in_place import replace_weights
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client, TableSpec, Task
from tests.services.bench import NUMBERS, context, queue
from tests.services.eval.policy import Heard, Published


class Watched(WeightStore):
    """Says what was asked of it, and may lose a version before that."""

    def __init__(self, directory: Path, *, lost: int | None = None) -> None:
        super().__init__(directory)
        self._lost = lost
        self._asked: list[int] = []
        self._new = asyncio.Event()

    def keep(self, policy: str, version: int, aside: WeightStore) -> None:
        self._asked.append(version)
        self._new.set()
        if version == self._lost:
            raise WeightsGone(f"version {version} was pruned")
        super().keep(policy, version, aside)

    async def asked(self, *versions: int) -> None:
        """Returns once it was asked for these, in that order."""
        async with asyncio.timeout(60):
            while self._asked != list(versions):
                self._new.clear()
                await self._new.wait()


@asynccontextmanager
async def following(
    tmp_path: Path, store: WeightStore, *, last: int = 6, first_step: int = 0
) -> AsyncIterator[tuple[Following, Heard, Published]]:
    report = Heard()
    async with (
        queue(tmp_path, NUMBERS) as (address, client),
        await Client.connect(address, holder="held/0") as own,
    ):
        made = context(own, report, tmp_path, first_step=first_step)
        versions = Following(made, Due(every=2, last=last), store, WeightStore(tmp_path / "kept"))
        running = asyncio.create_task(versions.run())
        yield versions, report, Published(client, WeightStore(tmp_path / "weights"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_was_taken_stays_though_its_file_goes(tmp_path: Path) -> None:
    async with following(tmp_path, WeightStore(tmp_path / "weights")) as (versions, _, publish):
        await publish(0)
        first = await versions.next()
        await publish(2)
        second = await versions.next()
        await publish(3)
        assert not (tmp_path / "weights" / "actor" / "00000000.safetensors").exists()
        assert [(taken.version, taken.checksum) for taken in (first, second)] == [
            (0, publish.checksums[0]),
            (2, publish.checksums[2]),
        ]
        assert (await versions.read(first))["w"].tolist() == [0.0, 0.0]
        versions.drop(first)
        kept = tmp_path / "kept" / "actor"
        assert [path.name for path in kept.iterdir()] == ["00000002.safetensors"]


async def test_a_model_holds_what_is_scored_where_it_was_kept_though_that_is_dropped(tmp_path: Path) -> None:
    model = torch.nn.Module()
    model.register_parameter("w", torch.nn.Parameter(torch.zeros(16)))
    async with following(tmp_path, WeightStore(tmp_path / "weights")) as (versions, _, publish):
        await publish(0, {"w": torch.full((16,), 7.0)})
        taken = await versions.next()
        kept = await versions.read(taken)
        replace_weights(model, kept)
        assert model.state_dict()["w"].data_ptr() == kept["w"].data_ptr()
        versions.drop(taken)
        del kept
        for version in range(1, 6):
            await publish(version)
        assert model.state_dict()["w"].tolist() == [7.0] * 16


async def test_what_was_kept_and_is_not_what_was_published_is_refused_as_it_is_read(tmp_path: Path) -> None:
    async with following(tmp_path, WeightStore(tmp_path / "weights")) as (versions, _, publish):
        await publish(0)
        taken = await versions.next()
        damage(tmp_path / "kept" / "actor" / "00000000.safetensors")
        with pytest.raises(WeightsError, match="was published"):
            await versions.read(taken)


async def test_a_version_that_is_gone_is_said_and_the_next_stands_in_for_it(tmp_path: Path) -> None:
    store = Watched(tmp_path / "weights", lost=2)
    async with following(tmp_path, store) as (versions, report, publish):
        await publish(0)
        assert (await versions.next()).version == 0
        await publish(2)
        await store.asked(0, 2)
        await publish(3)
        assert (await versions.next()).version == 3
        await publish(4)
        assert (await versions.next()).version == 4
    assert report.of("eval_skipped") == [
        {"version": 2, "scored_instead": 3, "reason": "version 2 was pruned"}
    ]


async def test_versions_that_were_passed_over_are_all_said(tmp_path: Path) -> None:
    async with following(tmp_path, WeightStore(tmp_path / "weights")) as (versions, report, publish):
        await publish(5)
        assert (await versions.next()).version == 5
        await publish(6)
        assert (await versions.next()).version == 6
    skipped = [(e["version"], e["scored_instead"]) for e in report.of("eval_skipped")]
    assert skipped == [(0, 5), (2, 5), (4, 5)]


async def test_a_launch_that_goes_on_from_a_step_owes_no_version_before_it(tmp_path: Path) -> None:
    store = WeightStore(tmp_path / "weights")
    async with following(tmp_path, store, first_step=3) as (versions, report, publish):
        await publish(3)
        await publish(4)
        assert (await versions.next()).version == 4
    assert report.of("eval_skipped") == []


async def test_a_timeline_that_begins_anew_is_followed_from_where_it_begins(tmp_path: Path) -> None:
    rows = TableSpec(
        name="rows",
        columns=NUMBERS.columns,
        tasks=(
            Task(name="answers", reads=("x",), writes=("y",), kind="begin", needs_full_group=True),
            Task(name="learn", reads=("x", "y"), kind="train", needs_full_group=True),
        ),
        policy="actor",
        rewindable=True,
    )
    report = Heard()
    async with (
        queue(tmp_path, rows) as (address, client),
        await Client.connect(address, holder="held/0") as own,
    ):
        publish = Published(client, WeightStore(tmp_path / "weights"))
        store = Watched(tmp_path / "weights")
        versions = Following(
            context(own, report, tmp_path),
            Due(every=2, last=6),
            store,
            WeightStore(tmp_path / "kept"),
        )
        running = asyncio.create_task(versions.run())
        await publish(0)
        assert (await versions.next()).version == 0
        await publish(2)
        await store.asked(0, 2)
        await client.rewind("learn", 0)
        await publish(2, {"w": torch.full((2,), 9.0)})
        await store.asked(0, 2, 2)
        again = await versions.next()
        assert (again.version, again.checksum) == (2, publish.checksums[2])
        assert (await versions.read(again))["w"].tolist() == [9.0, 9.0]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
