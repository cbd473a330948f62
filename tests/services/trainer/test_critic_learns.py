"""A critic that is trained as a policy of its own: its node scores, its trainer fits, over a real queue."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.algorithms.options import ValueOptions
from headrace.services.columns import CRITIC, PROMPT, RESPONSE, REWARD
from headrace.services.critic import Critic
from headrace.services.models.value import fault, load_value
from headrace.services.options import CriticOptions, OptimizerOptions, PolicyOptions, TrainerOptions
from headrace.services.replica import Replica
from headrace.services.trainer.service import Trainer
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client, TableSpec, Task
from tests.services.bench import Remembered, context, queue

GROUPS, SAMPLES, LETTERS, ALPHABET = 32, 2, 3, 3
SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE, *REWARD, *CRITIC),
    tasks=(
        Task(name="worth", reads=("prompt_ids", "response_ids"), writes=("values",)),
        Task(
            name="learn",
            reads=("prompt_ids", "response_ids", "loss_mask", "reward", "values"),
            kind="train",
            needs_full_group=True,
        ),
    ),
    units_per_step=GROUPS,
)
POLICY = PolicyOptions(model="tiny-value", optimizer=OptimizerOptions(lr=1e-3))


class Bed:
    """A critic, its trainer, and answers to copy tasks that are half right."""

    def __init__(self, client: Client, clients: dict[str, Client], tmp_path: Path) -> None:
        self.client, self.run_dir = client, tmp_path
        self.scorer, self.learner = Remembered(), Remembered()
        figures = {
            "policy_name": "critic",
            "policy": POLICY,
            "table": "rows",
            "samples_per_prompt": SAMPLES,
            "prompts_per_step": GROUPS,
            "own_rows": False,
        }
        scoring = context(
            clients["worth/0"],
            self.scorer,
            tmp_path,
            node="worth",
            options=CriticOptions(),
            policy_is_trained=True,
            **figures,
        )
        self.critic = Replica(Critic(), scoring, WeightStore(tmp_path / "weights"))
        options = TrainerOptions(algorithm=ValueOptions(), prompts_per_step=GROUPS)
        self.context = context(
            clients["learn/0"], self.learner, tmp_path, node="learn", options=options, **figures
        )
        self.random = np.random.default_rng(5)
        self.group = 0

    async def train(self, **flow: Any) -> None:
        trainer = Trainer()
        try:
            await trainer.setup(replace(self.context, flow=replace(self.context.flow, **flow)))
            await trainer.run()
        finally:
            await trainer.close()

    async def answers(self) -> None:
        """One batch. The reward is the share of letters that are right, each in half of the cases."""
        size = GROUPS * SAMPLES
        words = np.repeat(self.random.integers(3, 3 + ALPHABET, (GROUPS, LETTERS)), SAMPLES, axis=0)
        right = self.random.random(words.shape) < 0.5
        wrong = 3 + (words - 3 + self.random.integers(1, ALPHABET, words.shape)) % ALPHABET
        given = np.where(right, words, wrong).astype(np.int32)
        numbers = np.repeat(np.arange(self.group, self.group + GROUPS), SAMPLES)
        self.group += GROUPS
        columns: dict[str, Any] = {
            "prompt_ids": [np.append(word, 2).astype(np.int32) for word in words],
            "example": [{}] * size,
            "response_ids": list(given),
            "logprobs": [np.full(LETTERS, np.nan, np.float32)] * size,
            "versions": [np.full(LETTERS, 9, np.int32)] * size,
            "loss_mask": [np.ones(LETTERS, np.int8)] * size,
            "finish_reason": ["stop"] * size,
            "retokenises": np.ones(size, dtype=bool),
            "reward": right.mean(axis=1),
            "reward_invalid": [""] * size,
            "reward_parts": [{}] * size,
        }
        uids = numbers << 16 | np.tile(np.arange(SAMPLES), GROUPS)
        await self.client.put("rows", uids, columns, groups=numbers)

    async def steps(self, first: int, last: int) -> None:
        """Batches from `first` to before `last`, each scored under the version that its step starts from."""
        for step in range(first, last):
            await self.scorer.confirmed[step].wait()
            await self.answers()

    def metrics(self) -> list[dict[str, float]]:
        return [values for step, values in self.learner.lines if step is not None]


@asynccontextmanager
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    async with (
        asyncio.timeout(60),
        queue(tmp_path, SPEC) as (address, client),
        await Client.connect(address, holder="worth/0") as worth,
        await Client.connect(address, holder="learn/0") as learn,
    ):
        made = Bed(client, {"worth/0": worth, "learn/0": learn}, tmp_path)
        scoring = asyncio.create_task(made.critic.run())
        try:
            yield made
        finally:
            scoring.cancel()
            await asyncio.wait({scoring})


async def test_a_step_of_a_critic_is_committed_published_and_told_by_names_of_its_own(tmp_path: Path) -> None:
    async with bed(tmp_path) as b:
        await asyncio.gather(b.train(steps=2), b.steps(0, 2))
        assert (await b.client.published("critic", after=1, timeout_s=60.0)).version == 2
        table = (await b.client.stats()).tables["rows"]
        assert (table.step, table.trained, table.lost) == (2, 2 * GROUPS * SAMPLES, 0)
        first, second = b.metrics()
        assert (first["critic/values"], first["critic/vf_explained_var"]) == (
            0.0,
            pytest.approx(0.0, abs=1e-5),
        )
        assert second["critic/values"] != 0.0
        assert first["critic/returns"] == pytest.approx(first["reward/mean"], abs=1e-6)
        assert first["critic/vf_loss"] == pytest.approx(first["critic/loss"], rel=1e-6)
        assert (first["critic/lr"], first["critic/updates"], first["critic/frozen"]) == (1e-3, 1.0, 0.0)
        assert first["critic/grad_norm"] > 0.0 and first["critic/vf_clipfrac"] == 0.0
        assert not [name for name in first if name.startswith(("actor/", "staleness/", "ratio/"))]
        saved = tmp_path / "checkpoints" / "step-00000002"
        assert fault(str(saved)) is None
        assert load_value(str(saved), dtype="float32", seed=0).model.config.num_labels == 1


async def test_a_critic_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    async with bed(tmp_path) as b:
        await asyncio.gather(b.train(steps=1), b.steps(0, 1))
        b.context = replace(b.context, resume=tmp_path / "checkpoints" / "step-00000001")
        await asyncio.gather(b.train(first_step=1, steps=2), b.steps(1, 2))
        assert [metrics["critic/updates"] for metrics in b.metrics()] == [1.0, 1.0]
        assert (await b.client.published("critic", after=1, timeout_s=60.0)).version == 2


@pytest.mark.slow
async def test_a_critic_learns_what_half_right_answers_are_worth(tmp_path: Path) -> None:
    """The letters before tell none, one and two thirds of the reward's variance, a third on average: half the
    variance of 1/12 is 0.042 for who knows the mean alone, and 0.028 for who reads all the letters."""
    async with bed(tmp_path) as b:
        await asyncio.gather(b.train(steps=140), b.steps(0, 140))
        steps = b.metrics()
        assert steps[0]["critic/vf_loss"] > 0.1
        assert np.mean([step["critic/vf_loss"] for step in steps[-10:]]) < 0.037
        assert np.mean([step["critic/vf_explained_var"] for step in steps[-10:]]) > 0.15
