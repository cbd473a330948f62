"""Copies of checkpoints in a store: complete or not there, brought back as they were, no step's business."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from headrace.services.trainer import checkpoint, copying
from headrace.services.trainer.copying import brought
from headrace.services.trainer.store import Store, missing
from tests.services.trainer.bed import Bed, Counting, bed
from tests.services.trainer.test_checkpoint import write


class Flaky(LocalFileSystem):
    """Refuses as many files as it is told to, then keeps them."""

    protocol = "flaky"
    refusals: ClassVar[int] = 0

    def put_file(self, path1: str, path2: str, callback: Any = None, **told: Any) -> None:
        if Flaky.refusals:
            Flaky.refusals -= 1
            raise OSError("the line is down")
        shutil.copyfile(path1, self._strip_protocol(path2))


@pytest.fixture(autouse=True)
def flaky(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(copying, "PAUSE_S", 0.0)
    monkeypatch.setattr(Flaky, "refusals", 0)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


def test_a_copy_is_brought_back_byte_for_byte_where_it_is_newer(tmp_path: Path) -> None:
    here, address = tmp_path / "here", f"file://{tmp_path}/store"
    first, path = write(here, 4), write(here, 8)
    for each in (first, path):
        Store(address).put(each)
    assert list(Store(address).steps()) == [4, 8]
    nothing = checkpoint.Found(checkpoint=None, skipped=())
    assert brought(address, here) == nothing
    found = brought(address, tmp_path / "there").checkpoint
    assert found is not None and found.step == 8 and found.values == checkpoint.read(path).values
    assert contents(found.path) == contents(path)
    assert [each.name for each in (tmp_path / "there").iterdir()] == ["step-00000008"]
    assert brought(f"file://{tmp_path}/empty", tmp_path / "there") == nothing


def test_a_copy_that_was_cut_short_or_is_damaged_is_none(tmp_path: Path) -> None:
    store = Store(f"flaky://{tmp_path}/store")
    store.put(write(tmp_path / "here", 4))
    path = write(tmp_path / "here", 8)
    Flaky.refusals = 1
    with pytest.raises(OSError, match="the line is down"):
        store.put(path)
    assert list(store.steps()) == [4]
    store.put(path)
    assert list(store.steps()) == [4, 8]
    (tmp_path / "store" / "step-00000008" / "config.json").write_text("{ }")
    found = brought(f"file://{tmp_path}/store", tmp_path / "there")
    assert found.checkpoint is not None and found.checkpoint.step == 4
    (skipped,) = found.skipped
    assert (skipped.path.name, skipped.reason) == (
        "step-00000008",
        "the copy of step-00000008 is not a complete checkpoint: config.json does not match its sha256",
    )
    assert [each.name for each in (tmp_path / "there").iterdir()] == ["step-00000004"]


def test_a_manifest_puts_nothing_outside_of_its_checkpoint(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/store")
    store.put(write(tmp_path / "here", 4))
    manifest = tmp_path / "store" / "step-00000004" / checkpoint.MANIFEST
    (tmp_path / "store" / "evil").write_text("")
    manifest.write_text(json.dumps({"sha256": {"../evil": ""}}))
    with pytest.raises(ValueError, match=r"names '\.\./evil', which lies outside of a checkpoint"):
        store.fetch(4, tmp_path / "there")
    assert list((tmp_path / "there").rglob("*")) == []


def test_copies_are_kept_by_the_rules_of_checkpoints(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/store")
    for step in (10, 20, 30, 40):
        store.put(write(tmp_path / "here", step))
    for step in (15, 50):
        (tmp_path / "store" / f"step-000000{step}").mkdir()
    store.prune(keep=1, keep_every=20)
    assert list(store.steps()) == [20, 40]
    left = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert left == ["step-00000020", "step-00000040", "step-00000050"]


def test_a_scheme_that_nobody_knows_is_told() -> None:
    assert missing("file:///somewhere") is None
    assert missing("nowhere://somewhere") == "Protocol not known: nowhere"


async def taken(b: Bed, steps: int) -> None:
    """The trainer's steps, to their end."""
    running = asyncio.create_task(b.run(steps=steps))
    await b.prompts(2 * steps)
    for version in range(steps):
        await b.version(after=version - 1)
        await b.answer(2, version)
    await running


async def test_a_trainer_s_checkpoints_are_in_the_store_when_it_ends(
    tmp_path: Path, backend: Counting
) -> None:
    address = f"flaky://{tmp_path}/store"
    Flaky.refusals = 3
    async with bed(tmp_path, checkpoint_every=2, keep_checkpoints=1, checkpoint_store=address) as b:
        await taken(b, 2)
        assert [each["tries"] for each in b.report.of("checkpoint_not_copied")] == [1, 2, 3]
        assert b.report.of("checkpoint_copied") == [{"path": "step-00000002", "store": address}]
    assert contents(tmp_path / "store") == contents(tmp_path / "checkpoints")


async def test_a_store_that_is_down_costs_the_run_nothing_but_the_copy(
    tmp_path: Path, backend: Counting
) -> None:
    address = f"flaky://{tmp_path}/store"
    Flaky.refusals = copying.TRIES
    async with bed(tmp_path, checkpoint_every=0, checkpoint_store=address) as b:
        await taken(b, 2)
        assert b.checkpoints() == {"step-00000002": 2}
        last = b.report.of("checkpoint_not_copied")[-1]
    assert (last["tries"], last["reason"]) == (copying.TRIES, "OSError: the line is down")
    assert last["way_out"].startswith("the run goes on; the next checkpoint is copied")
    assert Store(address).steps() == {}
