"""Who scores under which weights: over a real queue and weight store, through the runtime of a replica."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from headrace.services.columns import CRITIC, PROMPT, REFERENCE, RESPONSE, TEACHER
from headrace.services.critic import Critic
from headrace.services.models import load
from headrace.services.models.value import load_value
from headrace.services.options import (
    CriticOptions,
    PolicyOptions,
    ReferenceOptions,
    ScorerOptions,
    TeacherOptions,
)
from headrace.services.reference import Reference
from headrace.services.replica import Replica
from headrace.services.scoring.scorer import ModelScorer
from headrace.services.teacher import Teacher
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client, TableSpec, Task
from tests.services.bench import Remembered, context, queue

PROMPT_IDS, ANSWER = [3, 4, 5, 2], [3, 4, 7, 1]
OPTIONS: dict[type[ModelScorer], ScorerOptions] = {
    Teacher: TeacherOptions(),
    Critic: CriticOptions(),
    Reference: ReferenceOptions(),
}


class Bed:
    """A scorer of rows that all hold the same answer, and what publishes its policy's weights."""

    def __init__(self, kind: type[ModelScorer], client: Client, own: Client, tmp_path: Path) -> None:
        self.client, self.column, self._own, self._run_dir = client, kind.column, own, tmp_path
        self._kind, self._store = kind, WeightStore(tmp_path / "weights")
        self._rows = 0
        self.report = Remembered()

    def replica(self, *, trained: bool) -> Replica:
        policy = PolicyOptions(model="tiny-value" if self._kind is Critic else "tiny-copier")
        made = context(
            self._own,
            self.report,
            self._run_dir,
            node="scorer",
            policy_name="other",
            policy=policy,
            policy_is_trained=trained,
            options=OPTIONS[self._kind],
            table="rows",
        )
        return Replica(self._kind(), made, self._store)

    async def publish(self, version: int, model: PreTrainedModel) -> None:
        checksum = self._store.write("other", version, weights(model))
        await self.client.publish("other", version, checksum)

    async def scored(self) -> np.ndarray:
        """What a new row gets."""
        lengths = {"response_ids": ANSWER, "logprobs": [-1.0] * 4, "versions": [0] * 4, "loss_mask": [1] * 4}
        columns = {
            "prompt_ids": [PROMPT_IDS],
            "example": [{}],
            **{name: [values] for name, values in lengths.items()},
            "finish_reason": ["stop"],
            "retokenises": [True],
        }
        await self.client.put("rows", [self._rows], columns, groups=[self._rows])
        self._rows += 1
        lease = await self.client.lease("read", 1, timeout_s=60.0)
        await self.client.ack(lease)
        return lease.rows[self.column][0]


@asynccontextmanager
async def bed(kind: type[ModelScorer], tmp_path: Path) -> AsyncIterator[Bed]:
    spec = TableSpec(
        name="rows",
        columns=(*PROMPT, *RESPONSE, *REFERENCE, *TEACHER, *CRITIC),
        tasks=(
            Task(name="scorer", reads=("prompt_ids", "response_ids"), writes=(kind.column,)),
            Task(name="read", reads=(kind.column,)),
        ),
    )
    async with (
        asyncio.timeout(60),
        queue(tmp_path, spec) as (address, client),
        await Client.connect(address, holder="scorer/0") as own,
    ):
        yield Bed(kind, client, own, tmp_path)


def weights(model: PreTrainedModel) -> Mapping[str, Any]:
    """As a trainer publishes them: tied names once."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}


def model_of(kind: type[ModelScorer], seed: int) -> PreTrainedModel:
    if kind is not Critic:
        return load("tiny-copier", dtype="float32", seed=seed).model
    model = load_value("tiny-value", dtype="float32", seed=seed).model
    torch.nn.init.constant_(model.get_parameter("score.weight"), 0.01)
    return model


def expected(kind: type[ModelScorer], model: PreTrainedModel) -> np.ndarray:
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([PROMPT_IDS + ANSWER])).logits[0, len(PROMPT_IDS) - 1 : -1]
    if kind is Critic:
        return logits[:, 0].numpy()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ANSWER)[:, None])[:, 0].numpy()


@pytest.mark.parametrize("kind", [Teacher, Critic])
async def test_a_scorer_of_a_trained_policy_waits_for_its_weights_and_scores_under_the_newest(
    tmp_path: Path, kind: type[ModelScorer]
) -> None:
    async with bed(kind, tmp_path) as b:
        running = asyncio.create_task(b.replica(trained=True).run())
        first, second = model_of(kind, 7), model_of(kind, 8)
        await b.publish(0, first)
        np.testing.assert_allclose(await b.scored(), expected(kind, first), rtol=0, atol=1e-5)
        await b.publish(1, second)
        await b.report.confirmed[1].wait()
        np.testing.assert_allclose(await b.scored(), expected(kind, second), rtol=0, atol=1e-5)
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize("kind", [Teacher, Critic])
async def test_a_scorer_of_a_policy_that_nobody_trains_waits_for_no_publication(
    tmp_path: Path, kind: type[ModelScorer]
) -> None:
    async with bed(kind, tmp_path) as b:
        running = asyncio.create_task(b.replica(trained=False).run())
        own = load_value("tiny-value", dtype="float32", seed=0).model if kind is Critic else model_of(kind, 0)
        np.testing.assert_allclose(await b.scored(), expected(kind, own), rtol=0, atol=1e-5)
        running.cancel()
        await asyncio.wait({running})


async def test_a_reference_scores_under_the_initial_weights_whoever_trains_the_policy(tmp_path: Path) -> None:
    async with bed(Reference, tmp_path) as b:
        await b.publish(0, model_of(Reference, 7))
        running = asyncio.create_task(b.replica(trained=True).run())
        initial = expected(Reference, model_of(Reference, 0))
        np.testing.assert_allclose(await b.scored(), initial, rtol=0, atol=1e-5)
        running.cancel()
        await asyncio.wait({running})


async def test_weights_that_do_not_fit_leave_the_old_ones(tmp_path: Path) -> None:
    async with bed(Teacher, tmp_path) as b:
        replica = b.replica(trained=False)
        teacher = replica._service
        assert isinstance(teacher, Teacher)
        await teacher.setup(replica._context)
        with pytest.raises(ValueError, match="weights do not fit LlamaForCausalLM"):
            await teacher.load(1, {"model.norm.weight": torch.zeros(3)})
        assert teacher.version == -1
        await teacher.close()
