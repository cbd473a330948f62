"""The trainer over a real queue, with a back end that only counts: commits, versions, checkpoints."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from headrace.algorithms.options import GrpoOptions, ReinforcePpOptions
from headrace.algorithms.updates import Annealed, MiniBatches
from headrace.services.data_position import DataPosition
from headrace.services.errors import TrainingError, WeightsError
from headrace.services.faults import Fault
from headrace.services.trainer import checkpoint
from headrace.services.trainer.backend import NonFiniteGradientError
from headrace.services.trainer.service import Trainer
from headrace.services.trainer.tensor_files import write_state
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client, Stats, StepRefused
from tests.services.trainer.bed import SPEC, Counting, bed


async def test_each_step_commits_its_rows_once_and_publishes_the_next_version(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run())
        await b.prompts(4)
        for version in (0, 1):
            assert await b.version(after=version - 1) == version
            await b.answer(2, version)
        await running
        assert await b.version(after=1) == 2
        first, second, _ = backend.batches
        assert sorted(first) == [0, 1, 1 << 16, 1 << 16 | 1]
        assert sorted(second) == [2 << 16, 2 << 16 | 1, 3 << 16, 3 << 16 | 1]
        table = (await b.client.stats()).tables["rows"]
        assert (table.step, table.trained, table.duplicated, table.lost) == (2, 8, 0, 0)
        steps = [
            (step, m["samples/trained"], m["actor/lr"]) for step, m in b.report.lines if step is not None
        ]
        assert steps == [(0, 4.0, 1e-3), (1, 4.0, 1e-3)]
        assert b.checkpoints() == {"step-00000002": 2}
        assert b.position(2) == DataPosition(next=4)


async def test_an_algorithm_over_the_whole_batch_waits_for_its_last_group_and_credits_all_at_once(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, algorithm=ReinforcePpOptions()) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(2)
        await b.version(after=-1)
        await b.answer(1, 0)
        assert backend.sizes == []
        await b.answer(1, 0)
        await running
        assert backend.sizes == [4]
        assert sum(backend.credits) == pytest.approx(0.0, abs=1e-12)
        assert max(backend.credits) == pytest.approx((7 / 8) ** 0.5, abs=1e-6)


async def test_groups_are_accumulated_as_they_finish(tmp_path: Path, backend: Counting) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(2)
        await b.version(after=-1)
        await b.answer(1, 0)
        assert (await b.client.stats()).tables["rows"].step == 0
        await b.answer(1, 0)
        await running
        assert len(backend.batches[0]) == 4


async def test_data_that_ends_before_the_steps_is_an_error_with_the_way_out(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run())
        await b.prompts(3)
        await b.client.end("rows")
        await b.version(after=-1)
        await b.answer(2, 0)
        await b.version(after=0)
        await b.answer(1, 1)
        with pytest.raises(TrainingError, match="step 1 of 2 lacks 1 prompts and the data has ended; set"):
            await running
        assert b.checkpoints() == {"step-00000001": 1}
        assert backend.discarded == 1


async def test_a_knob_that_was_moved_binds_what_is_begun_from_then_on(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run())
        await b.prompts(4)
        await b.version(after=-1)
        await b.client.set_staleness("rows", 1.0)
        await b.answer(4, 0)
        await running
        table = (await b.client.stats()).tables["rows"]
        assert (table.step, table.bound, table.violations) == (2, 1.0, 0)
        assert table.staleness_trained == {0: 4, 1: 4}


async def test_a_sample_beyond_the_bound_is_never_trained_on(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which the queue does not hand out; so here it is made to say another bound than that it keeps."""
    stats = Client.stats

    async def bound_by_0(client: Client) -> Stats:
        told = await stats(client)
        return replace(told, tables={name: replace(each, bound=0.0) for name, each in told.tables.items()})

    monkeypatch.setattr(Client, "stats", bound_by_0)
    async with bed(tmp_path, replace(SPEC, staleness=1.0)) as b:
        running = asyncio.create_task(b.run())
        await b.prompts(4)
        await b.version(after=-1)
        await b.answer(4, 0)
        with pytest.raises(
            TrainingError, match="step 1: a sample of staleness 1 was handed out, the bound is 0"
        ):
            await running
        assert (await b.client.stats()).tables["rows"].step == 1


async def test_a_trainer_that_is_stopped_keeps_its_last_committed_step(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run())
        await b.prompts(4)
        await b.version(after=-1)
        await b.answer(2, 0)
        await b.version(after=0)
        await b.answer(1, 1)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert b.checkpoints() == {"step-00000001": 1}
        assert b.position(1) == DataPosition(next=2)
        assert [e["step"] for e in b.report.of("checkpoint")] == [1]


async def test_an_update_that_was_not_committed_is_in_no_checkpoint(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run())
        await b.prompts(4)
        await b.version(after=-1)
        await b.answer(2, 0)
        await b.version(after=0)

        async def refuse(*_: Any) -> None:
            raise StepRefused("not due")

        monkeypatch.setattr(b.own, "commit", refuse)
        await b.answer(2, 1)
        with pytest.raises(StepRefused):
            await running
        assert backend.weight == 2
        assert b.checkpoints() == {}
        assert b.report.of("step_failed") == [{"reason": "StepRefused: not due"}]


async def test_a_gradient_that_is_not_finite_leaves_the_step_before_it(
    tmp_path: Path, backend: Counting
) -> None:
    backend.broken = 1
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run())
        await b.prompts(4)
        for version in (0, 1):
            await b.version(after=version - 1)
            await b.answer(2, version)
        with pytest.raises(NonFiniteGradientError, match="step 1"):
            await running
        assert b.checkpoints() == {"step-00000001": 1}


async def test_checkpoints_come_as_often_as_asked_and_the_oldest_go(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, checkpoint_every=1, keep_checkpoints=2) as b:
        running = asyncio.create_task(b.run(steps=4))
        await b.prompts(8)
        for version in range(4):
            await b.version(after=version - 1)
            await b.answer(2, version)
        await running
        assert b.checkpoints() == {"step-00000003": 3, "step-00000004": 4}


async def test_a_resume_goes_on_from_the_checkpoint_and_its_data(tmp_path: Path, backend: Counting) -> None:
    def save(folder: Path) -> None:
        save_file({"w": torch.tensor([5])}, folder / "model.safetensors")
        write_state(folder, {"s": torch.tensor([5])})

    values = {"data_position": {"next": 10, "done": [12]}, "seed": 0}
    saved = checkpoint.write(tmp_path / "checkpoints", 5, save=save, values=values)
    async with bed(tmp_path, replace(SPEC, first_step=5)) as b:
        b.context = replace(b.context, resume=saved.path)
        running = asyncio.create_task(b.run(first_step=5, steps=6))
        assert await b.version(after=-1) == 5
        await b.prompts(2)
        await b.answer(2, 5)
        await running
        assert b.checkpoints() == {"step-00000005": 5, "step-00000006": 6}
        assert b.position(6) == DataPosition(next=10, done=frozenset({12}))


async def test_one_killed_between_a_checkpoint_and_its_word_to_the_queue_says_it_when_it_is_back(
    tmp_path: Path, backend: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(task: str, step: int) -> None:
        raise asyncio.CancelledError

    async with bed(tmp_path, replace(SPEC, rewindable=True), keep_checkpoints=1) as b:
        with monkeypatch.context() as patched:
            patched.setattr(b.own, "checkpointed", killed)
            running = asyncio.create_task(b.run(steps=1))
            await b.prompts(2)
            await b.version(after=-1)
            await b.answer(2, 0)
            await asyncio.wait({running})
        assert running.cancelled() and b.checkpoints() == {"step-00000001": 1}
        b.trainer = Trainer()
        b.context = replace(b.context, resume=tmp_path / "checkpoints" / "step-00000001")
        await b.run(first_step=1, steps=1)
        with pytest.raises(StepRefused, match="steps 1 to 1 can be gone back to; earlier rows went"):
            await b.client.rewind("learn", 0)


async def test_a_resume_does_not_ask_a_quarantined_prompt_again(tmp_path: Path, backend: Counting) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(3)
        await b.version(after=-1)
        for _ in range(3):
            lease = await b.client.lease("answers", 2, version=0, timeout_s=60.0)
            assert set(lease.rows.groups.tolist()) == {0}
            await b.client.release(lease, reason="poison")
        await b.answer(2, 0)
        await running
        assert (await b.client.stats()).tables["rows"].quarantined == 2
        assert b.position(1) == DataPosition(next=3)
        assert (
            json.loads((tmp_path / "checkpoints" / "step-00000001" / "state.json").read_text())["step"] == 1
        )


async def test_an_update_of_several_steps_waits_for_the_batch_and_makes_one_version(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path, update=MiniBatches(number=2, epochs=2)) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        await b.version(after=-1)
        await b.answer(1, 0)
        assert backend.sizes == []
        await b.answer(1, 0)
        assert await b.version(after=0) == 1
        await b.answer(2, 1)
        await running
        assert backend.asked == list(range(8))
        assert backend.sizes == [2] * 8
        assert sorted(backend.batches[0] + backend.batches[1]) == [0, 1, 1 << 16, 1 << 16 | 1]
        steps = [m for step, m in b.report.lines if step is not None]
        assert [(m["actor/updates"], m["samples/trained"]) for m in steps] == [(4.0, 4.0)] * 2
        table = (await b.client.stats()).tables["rows"]
        assert (table.step, table.trained, table.lost) == (2, 8, 0)


async def test_a_gradient_that_is_not_finite_after_a_mini_batch_leaves_no_checkpoint_of_the_step(
    tmp_path: Path, backend: Counting
) -> None:
    backend.broken = 3
    async with bed(tmp_path, update=MiniBatches(number=2)) as b:
        running = asyncio.create_task(b.run(steps=2))
        await b.prompts(4)
        for version in (0, 1):
            await b.version(after=version - 1)
            await b.answer(2, version)
        with pytest.raises(NonFiniteGradientError, match="step 3"):
            await running
        assert backend.weight == 3
        assert b.checkpoints() == {}


async def test_a_coefficient_that_moves_has_its_value_at_each_step(tmp_path: Path, backend: Counting) -> None:
    falling = Annealed(start=0.5, end=0.0, last_step=2)
    async with bed(tmp_path, algorithm=GrpoOptions(entropy_coef=falling)) as b:
        running = asyncio.create_task(b.run(steps=3))
        await b.prompts(6)
        for version in range(3):
            await b.version(after=version - 1)
            await b.answer(2, version)
        await running
        assert backend.bonuses == [0.5, 0.25, 0.0]


async def test_weights_that_were_written_damaged_are_whole_once_they_are_written_once_more(
    tmp_path: Path, backend: Counting
) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(steps=1))
        b.context.faults.arm(Fault(kind="corrupt"))
        await b.prompts(2)
        assert await b.version(after=-1) == 0
        found = await b.client.published("actor", after=-1, timeout_s=60.0)
        store = WeightStore(tmp_path / "weights")
        with pytest.raises(WeightsError, match="was published"):
            store.read("actor", 0, found.checksum)
        await b.trainer.rewrite_weights()
        assert store.read("actor", 0, found.checksum)["w"].tolist() == [0]
        await b.answer(2, 0)
        await running
