"""The trainer over a real queue, with a back end that only counts: commits, versions, checkpoints."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from headrace.algorithms.base import Algorithm
from headrace.algorithms.options import GrpoOptions, ReinforcePpOptions
from headrace.services.columns import PROMPT, RESPONSE, REWARD
from headrace.services.data_position import DataPosition
from headrace.services.errors import TrainingError
from headrace.services.options import TrainerOptions
from headrace.services.trainer import checkpoint, service
from headrace.services.trainer.backend import NonFiniteGradientError, StepResult
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.service import Trainer
from headrace.services.trainer.torch_backend import TorchBackend
from headrace.transferqueue import Client, StepRefused, TableSpec, Task
from tests.services.bench import Remembered, context, queue

READS = tuple(c.name for c in (*PROMPT, *RESPONSE, *REWARD) if c.name != "example")
SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE, *REWARD),
    tasks=(
        Task(
            name="answers",
            reads=("prompt_ids",),
            writes=tuple(c.name for c in RESPONSE),
            kind="begin",
            needs_full_group=True,
        ),
        Task(name="scores", reads=("response_ids",), writes=tuple(c.name for c in REWARD)),
        Task(name="learn", reads=READS, kind="train", needs_full_group=True),
    ),
    policy="actor",
    units_per_step=2,
)


class Counting:
    """A back end whose one weight is the number of steps taken; `broken` names the step that raises."""

    broken: int | None = None

    def __init__(self) -> None:
        self.weight, self.batches, self.discarded = 0, [[]], 0
        self.sizes: list[int] = []
        self.credits: list[float] = []

    def accumulate(self, samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        self.batches[-1] += samples.uids.tolist()
        self.sizes.append(len(samples))
        self.credits += np.concatenate(list(map(np.atleast_1d, samples.advantages))).tolist()
        return {}

    def step(self, step: int) -> StepResult:
        if step == self.broken:
            raise NonFiniteGradientError(f"step {step}: not finite")
        self.weight += 1
        self.batches.append([])
        return StepResult(step=step, grad_norm=0.5, lr=1e-3, skipped=False, count=4.0)

    def discard(self) -> None:
        self.discarded += 1

    def weights(self) -> dict[str, torch.Tensor]:
        return {"w": torch.tensor([self.weight])}

    def state(self) -> dict[str, torch.Tensor]:
        return {"s": torch.tensor([self.weight])}

    def save_model(self, directory: Path) -> None:
        save_file(self.weights(), directory / "model.safetensors")

    def load_state(self, weights: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
        self.weight = int(weights["w"])


class Bed:
    """A trainer, the queue that it is in, and what else writes to its table."""

    def __init__(self, client: Client, own: Client, tmp_path: Path, options: TrainerOptions) -> None:
        self.client, self.own, self.report, self.run_dir = client, own, Remembered(), tmp_path
        self.trainer = Trainer()
        self.context = context(
            own, self.report, tmp_path, options=options, node="learn", replica="learn/0", table="rows"
        )

    async def run(self, **flow: Any) -> None:
        made = replace(self.context, flow=replace(self.context.flow, **flow))
        try:
            await self.trainer.setup(made)
            await self.trainer.run()
        finally:
            await self.trainer.close()

    async def prompts(self, groups: int) -> None:
        """Rows group << 16 | 0 and 1 of each of `groups`."""
        numbers = np.repeat(np.arange(groups), 2)
        uids = numbers << 16 | np.tile(np.arange(2), groups)
        columns = {"prompt_ids": [np.arange(3, dtype=np.int32)] * len(uids), "example": [{}] * len(uids)}
        await self.client.put("rows", uids, columns, groups=numbers)

    async def answer(self, groups: int, version: int) -> None:
        """Generates and scores whole groups: two tokens each, reward 1 and 0."""
        lease = await self.client.lease("answers", 2 * groups, version=version, timeout_s=5.0)
        size = len(lease.rows)
        columns = {
            "response_ids": [np.array([5, 1], dtype=np.int32)] * size,
            "logprobs": [np.array([-1.0, -1.0], dtype=np.float32)] * size,
            "versions": [np.full(2, version, dtype=np.int32)] * size,
            "loss_mask": [np.ones(2, dtype=np.int8)] * size,
            "finish_reason": ["stop"] * size,
        }
        await self.client.put("rows", lease.rows.uids, columns, lease=lease)
        await self.client.ack(lease)
        await self.score()

    async def score(self) -> None:
        lease = await self.client.lease("scores", 100, timeout_s=5.0)
        size = len(lease.rows)
        rewards = {
            "reward": np.tile([1.0, 0.0], size // 2),
            "reward_invalid": [""] * size,
            "reward_parts": [{}] * size,
        }
        await self.client.put("rows", lease.rows.uids, rewards, lease=lease)
        await self.client.ack(lease)

    async def version(self, after: int) -> int:
        return (await self.client.published("actor", after=after, timeout_s=5.0)).version

    def checkpoints(self) -> dict[str, int]:
        """The weight in each checkpoint, by name."""
        paths = sorted((self.run_dir / "checkpoints").glob("step-*"))
        return {path.name: int(load_file(path / "model.safetensors")["w"]) for path in paths}

    def position(self, step: int) -> DataPosition:
        return DataPosition.of_checkpoint(self.run_dir / "checkpoints" / f"step-{step:08d}")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    tokenizer = SimpleNamespace(save_pretrained=lambda folder: None)
    monkeypatch.setattr(service, "load", lambda *_, **__: SimpleNamespace(model=None, tokenizer=tokenizer))
    monkeypatch.setattr(service, TorchBackend.__name__, lambda *_, **__: made)
    return made


@asynccontextmanager
async def bed(tmp_path: Path, spec: TableSpec = SPEC, **options: Any) -> AsyncIterator[Bed]:
    made = TrainerOptions(**{"algorithm": GrpoOptions(), "prompts_per_step": 2} | options)
    async with (
        asyncio.timeout(20),
        queue(tmp_path, spec) as (address, client),
        await Client.connect(address, holder="learn/0") as own,
    ):
        yield Bed(client, own, tmp_path, made)


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


async def test_a_sample_beyond_the_bound_is_never_trained_on(tmp_path: Path, backend: Counting) -> None:
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

    values = {"data_position": {"next": 10, "done": [12]}, "seed": 0}
    saved = checkpoint.write(
        tmp_path / "old", 5, save_model=save, tensors={"s": torch.tensor([5])}, values=values
    )
    async with bed(tmp_path, replace(SPEC, first_step=5)) as b:
        b.context = replace(b.context, resume=saved.path)
        running = asyncio.create_task(b.run(first_step=5, steps=6))
        assert await b.version(after=-1) == 5
        await b.prompts(2)
        await b.answer(2, 5)
        await running
        assert b.checkpoints() == {"step-00000006": 6}
        assert b.position(6) == DataPosition(next=10, done=frozenset({12}))


async def test_a_resume_does_not_ask_a_quarantined_prompt_again(tmp_path: Path, backend: Counting) -> None:
    async with bed(tmp_path) as b:
        running = asyncio.create_task(b.run(steps=1))
        await b.prompts(3)
        await b.version(after=-1)
        for _ in range(3):
            lease = await b.client.lease("answers", 2, version=0, timeout_s=5.0)
            assert set(lease.rows.groups.tolist()) == {0}
            await b.client.release(lease, reason="poison")
        await b.answer(2, 0)
        await running
        assert (await b.client.stats()).tables["rows"].quarantined == 2
        assert b.position(1) == DataPosition(next=3)
        assert (
            json.loads((tmp_path / "checkpoints" / "step-00000001" / "state.json").read_text())["step"] == 1
        )
