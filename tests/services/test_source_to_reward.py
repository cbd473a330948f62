"""Source and reward joined by a real queue; a stand-in of a few lines writes the answers in between."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.services.base import Context, Flow
from headrace.services.columns import PROMPT, RESPONSE, REWARD
from headrace.services.models import exists, load_tokenizer
from headrace.services.options import (
    CopyData,
    CopyVerifier,
    PolicyOptions,
    ReasoningGymData,
    ReasoningGymVerifier,
    RewardOptions,
    SourceOptions,
)
from headrace.services.reward.service import Reward
from headrace.services.source.service import Source
from headrace.transferqueue import Client, Controller, EndOfData, Rows, TableSpec, Task

READS = ("response_ids", "example")
SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE, *REWARD),
    tasks=(
        Task(name="answers", reads=("prompt_ids", "example"), writes=tuple(c.name for c in RESPONSE)),
        Task(name="scores", reads=READS, writes=tuple(c.name for c in REWARD)),
        Task(name="learn", reads=("example", "reward", "reward_parts"), needs_full_group=True),
    ),
    max_rows=24,
)


class Silent:
    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None: ...
    def event(self, kind: str, **detail: Any) -> None: ...


@asynccontextmanager
async def queue(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        Controller(tmp_path / "queue", f"ipc://{tmp_path}/queue.sock") as controller,
        await Client.connect(controller.address, holder="test") as client,
    ):
        await client.create(SPEC)
        yield client


def context(client: Client, node: str, options: Any, model: str, tmp_path: Path) -> Context:
    flow = Flow(
        table="rows",
        steps=1,
        first_step=0,
        samples_per_prompt=4,
        prompts_per_step=4,
        staleness=0.0,
        temperature=1.0,
        max_new_tokens=16,
        model="tiny-copier",
        no_progress_timeout_s=60.0,
    )
    return Context(
        run="test",
        run_dir=tmp_path,
        node=node,
        replica=f"{node}/0",
        seed=0,
        client=client,
        options=options,
        shared_dir=tmp_path,
        resume=None,
        policy_name="actor",
        policy=PolicyOptions(model=model),
        flow=flow,
        report=Silent(),
    )


async def answer(client: Client, texts: Any, tokenizer: Any) -> None:
    """Writes `texts(rows)` as the answers of all rows, the stop token included, until the data ends."""
    while True:
        try:
            lease = await client.lease("answers", 16, timeout_s=60.0)
        except EndOfData:
            return
        ids = [
            np.array([*tokenizer.encode(text), tokenizer.eos_token_id], dtype=np.int32)
            for text in texts(lease.rows)
        ]
        columns = {
            "response_ids": ids,
            "logprobs": [np.zeros(len(i), dtype=np.float32) for i in ids],
            "versions": [np.zeros(len(i), dtype=np.int32) for i in ids],
            "loss_mask": [np.ones(len(i), dtype=np.int8) for i in ids],
            "finish_reason": ["stop"] * len(ids),
            "retokenises": np.ones(len(ids), dtype=bool),
        }
        await client.put("rows", lease.rows.uids, columns, lease=lease)
        await client.ack(lease)


async def score(client: Client, reward: Reward) -> None:
    while True:
        try:
            lease = await client.lease("scores", reward.capacity, timeout_s=60.0)
        except EndOfData:
            return
        async for output in reward.process(lease.rows):
            await client.put("rows", output.uids, output.columns, lease=lease)
            await client.ack(lease, uids=output.uids)


async def learned(client: Client) -> list[Rows]:
    leases: list[Rows] = []
    while True:
        try:
            lease = await client.lease("learn", 1024, timeout_s=60.0)
        except EndOfData:
            return leases
        leases.append(lease.rows)
        await client.ack(lease)


async def flow_through(
    tmp_path: Path, model: str, dataset: Any, verifier: Any, texts: Any
) -> dict[int, tuple[int, float, dict[str, float]]]:
    """(group, reward, parts) by uid, after all rows went from the source to the learner."""
    source, reward = Source(), Reward()
    async with queue(tmp_path) as client:
        options = SourceOptions(dataset=dataset, samples_per_prompt=4, epochs=1)
        await source.setup(context(client, "prompts", options, model, tmp_path))
        await reward.setup(context(client, "scores", RewardOptions(verifier=verifier), model, tmp_path))
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(source.run())
            tasks.create_task(answer(client, texts, load_tokenizer(model)))
            tasks.create_task(score(client, reward))
            rows = tasks.create_task(learned(client))
        await reward.close()
    return {
        uid: (group, value, parts)
        for lease in rows.result()
        for uid, group, value, parts in zip(
            lease.uids.tolist(), lease.groups.tolist(), lease["reward"], lease["reward_parts"], strict=True
        )
    }


async def test_every_sample_of_an_epoch_is_scored_once_though_the_table_is_small(tmp_path: Path) -> None:
    def texts(rows: Rows) -> list[str]:
        """Sample 0 is right, the others miss the last letter."""
        answers = [example["answer"] for example in rows["example"]]
        return [a if uid % 4 == 0 else a[:-1] for uid, a in zip(rows.uids.tolist(), answers, strict=True)]

    data = CopyData(letters=4, size=20)
    scores = await flow_through(tmp_path, "tiny-copier", data, CopyVerifier(), texts)
    assert sorted(scores) == [group << 16 | sample for group in range(20) for sample in range(4)]
    for uid, (group, value, parts) in scores.items():
        right = uid % 4 == 0
        assert group == uid >> 16
        assert (value, parts["exact"]) == ((1.0, 1.0) if right else (0.375, 0.0))


@pytest.mark.slow
async def test_arithmetic_goes_through_a_chat_template_and_a_verifier_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("reasoning_gym")
    if problem := exists("smollm2-135m-instruct"):
        pytest.skip(problem)

    def texts(rows: Rows) -> list[str]:
        return [f"<answer>{example['entry']['answer']}</answer>" for example in rows["example"]]

    data = ReasoningGymData(task="chain_sum", size=6)
    scores = await flow_through(tmp_path, "smollm2-135m-instruct", data, ReasoningGymVerifier(), texts)
    assert [value for _, value, _ in scores.values()] == [1.0] * 24
