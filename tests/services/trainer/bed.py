"""A trainer over a real queue, with a back end that only counts, and what else writes to its table."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from headrace.algorithms.base import Algorithm, PolicyOutput, TokenBatch
from headrace.algorithms.options import GrpoOptions
from headrace.services.columns import PROMPT, RESPONSE, REWARD
from headrace.services.data_position import DataPosition
from headrace.services.options import TrainerOptions
from headrace.services.trainer import checkpoint
from headrace.services.trainer.backend import NonFiniteGradientError, StepResult
from headrace.services.trainer.ranks.group import ALONE
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.service import Trainer
from headrace.services.trainer.snapshot import Beside
from headrace.services.trainer.tensor_files import write_state
from headrace.transferqueue import Client, TableSpec, Task
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


def bonus(algorithm: Algorithm) -> float:
    """Weight of the entropy in the loss of one token that is credited nothing."""
    zero, one = torch.zeros(1), torch.ones(1)
    batch = TokenBatch(
        behaviour_logprobs=zero,
        proximal_logprobs=zero,
        advantages=zero,
        mask=one,
        sample=torch.zeros(1, dtype=torch.int64),
        samples=1,
        group=torch.zeros(1, dtype=torch.int64),
        rewards=zero,
        group_tokens=one,
    )
    return -algorithm.loss(PolicyOutput(logprobs=zero, entropy=one), batch).total.item()


class Counting:
    """A back end whose one weight is the number of steps taken; `broken` names the step that raises."""

    broken: int | None = None

    def __init__(self) -> None:
        self.weight, self.batches, self.discarded = 0, [[]], 0
        self.copied = 0
        self._beside = Beside()
        self.before_writing: Callable[[int], None] = lambda weight: None
        """Passed, in the thread that writes, by what writes a checkpoint of that weight."""
        self.closed = False
        self.sizes: list[int] = []
        self.credits: list[float] = []
        self.trained: list[float] = []
        self.asked: list[int] = []
        self.bonuses: list[float] = []
        """Of the entropy, by batch: what it adds to a loss of one token of entropy 1."""

    def accumulate(self, samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        self.batches[-1] += samples.uids.tolist()
        self.sizes.append(len(samples))
        self.bonuses.append(bonus(algorithm))
        self.trained += [float(np.sum(mask)) for mask in samples.loss_mask]
        self.credits += np.concatenate(list(map(np.atleast_1d, samples.advantages))).tolist()
        return {}

    def step(self, step: int) -> StepResult:
        self.asked.append(step)
        if step == self.broken:
            raise NonFiniteGradientError(f"step {step}: not finite")
        self.weight += 1
        self.batches.append([])
        return StepResult(step=step, grad_norm=0.5, lr=1e-3, skipped=False, count=4.0)

    def before(
        self,
        prompt_ids: Sequence[np.ndarray],
        response_ids: Sequence[np.ndarray],
        groups: np.ndarray,
        names: Sequence[str] = (),
    ) -> dict[str, list[np.ndarray]]:
        return {name: [np.full(len(ids), -0.5) for ids in response_ids] for name in ("logprobs", *names)}

    def prepared(self, samples: Samples, algorithm: Algorithm) -> Samples:
        return replace(samples, is_prepared=True)

    def discard(self) -> None:
        self.discarded += 1

    def weights(self) -> dict[str, torch.Tensor]:
        return {"w": torch.tensor([self.weight])}

    def save(self, directory: Path) -> None:
        self._write(directory, self.weight)

    def snapshot(self) -> None:
        self.copied = self.weight

    def write(self, directory: Path) -> Future[None]:
        return self._beside.begin(partial(self._write, directory, self.copied))

    def written(self) -> None:
        self._beside.settle(ALONE)

    def _write(self, directory: Path, weight: int) -> None:
        self.before_writing(weight)
        save_file({"w": torch.tensor([weight])}, directory / "model.safetensors")
        write_state(directory, {"s": torch.tensor([weight])})

    def close(self) -> None:
        self.closed = True

    def load(self, directory: Path) -> None:
        self.weight = int(load_file(directory / "model.safetensors")["w"])


class Bed:
    """A trainer, the queue that it is in, and what else writes to its table."""

    def __init__(
        self, address: str, client: Client, own: Client, tmp_path: Path, options: TrainerOptions
    ) -> None:
        self.address = address
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

    async def answer(
        self,
        groups: int,
        version: int,
        *,
        rewards: Sequence[float] = (1.0, 0.0),
        finish: str = "stop",
        retokenises: bool = True,
    ) -> None:
        """Generates and scores whole groups of two answers, two tokens each, with `rewards`.

        `finish`, `retokenises` are of the second answers.
        """
        lease = await self.client.lease("answers", 2 * groups, version=version, timeout_s=60.0)
        size = len(lease.rows)
        columns = {
            "response_ids": [np.array([5, 1], dtype=np.int32)] * size,
            "logprobs": [np.array([-1.0, -1.0], dtype=np.float32)] * size,
            "versions": [np.full(2, version, dtype=np.int32)] * size,
            "loss_mask": [np.ones(2, dtype=np.int8)] * size,
            "finish_reason": ["stop", finish] * groups,
            "retokenises": np.array([True, retokenises] * groups),
        }
        await self.client.put("rows", lease.rows.uids, columns, lease=lease)
        await self.client.ack(lease)
        await self.score(rewards)

    async def score(self, given: Sequence[float]) -> None:
        lease = await self.client.lease("scores", 100, timeout_s=60.0)
        size = len(lease.rows)
        rewards = {
            "reward": np.tile(given, size // 2),
            "reward_invalid": [""] * size,
            "reward_parts": [{}] * size,
        }
        await self.client.put("rows", lease.rows.uids, rewards, lease=lease)
        await self.client.ack(lease)

    async def version(self, after: int) -> int:
        return (await self.client.published("actor", after=after, timeout_s=60.0)).version

    def checkpoints(self) -> dict[str, int]:
        """The weight in each checkpoint, by name."""
        paths = sorted((self.run_dir / "checkpoints").glob("step-*"))
        return {path.name: int(load_file(path / "model.safetensors")["w"]) for path in paths}

    def values(self, step: int) -> Mapping[str, Any]:
        return checkpoint.read(self.run_dir / "checkpoints" / f"step-{step:08d}").values

    def position(self, step: int) -> DataPosition:
        return DataPosition.of_checkpoint(self.run_dir / "checkpoints" / f"step-{step:08d}")


@asynccontextmanager
async def bed(
    tmp_path: Path, spec: TableSpec = SPEC, *, parents: tuple[TableSpec, ...] = (), **options: Any
) -> AsyncIterator[Bed]:
    """`parents`: tables that those of `spec` come from."""
    made = TrainerOptions(**{"algorithm": GrpoOptions(), "prompts_per_step": 2} | options)
    async with (
        asyncio.timeout(60),
        queue(tmp_path, *parents, spec) as (address, client),
        await Client.connect(address, holder="learn/0") as own,
    ):
        yield Bed(address, client, own, tmp_path, made)
