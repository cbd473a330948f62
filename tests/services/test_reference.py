"""The reference against a forward pass of the initial model, one answer at a time."""

import asyncio
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
import torch

from headrace.services.columns import PROMPT, RESPONSE
from headrace.services.models import load
from headrace.services.options import ReferenceOptions
from headrace.services.reference import Reference
from headrace.transferqueue import Client, Rows, TableSpec, Task
from tests.services.bench import Remembered, context

SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE),
    tasks=(Task(name="reference", reads=("prompt_ids", "response_ids")),),
)
PROMPTS = [[3, 4, 5, 2], [3, 4, 5, 2], [6, 2]]
ANSWERS = [[3, 4, 5, 1], [7, 1], [6, 6, 6, 6, 6]]


def rows() -> Rows:
    return Rows(
        uids=np.array([10, 11, 12]),
        groups=np.array([1, 1, 2]),
        attempts=np.ones(3, dtype=np.int32),
        versions=np.zeros(3, dtype=np.int64),
        carries=(None,) * 3,
        columns={
            "prompt_ids": pa.array(PROMPTS, pa.list_(pa.int32())),
            "response_ids": pa.array(ANSWERS, pa.list_(pa.int32())),
        },
        spec=SPEC,
    )


def directly(prompt: list[int], answer: list[int], *, seed: int, temperature: float) -> torch.Tensor:
    model = load("tiny-copier", dtype="float32", seed=seed).model
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1).gather(1, torch.tensor(answer)[:, None])[:, 0]


@pytest.mark.parametrize("micro_batch_tokens", [8192, 12])
async def test_each_answer_is_scored_under_the_run_s_initial_weights(
    tmp_path: Path, micro_batch_tokens: int
) -> None:
    reference = Reference()
    options = ReferenceOptions(micro_batch_tokens=micro_batch_tokens)
    where = context(cast(Client, None), Remembered(), tmp_path, options=options, seed=3, temperature=0.5)
    await reference.setup(where)
    (one,), (two,) = await asyncio.gather(scored(reference), scored(reference))
    for column in (one, two):
        for prompt, answer, got in zip(PROMPTS, ANSWERS, column, strict=True):
            expected = directly(prompt, answer, seed=3, temperature=0.5)
            assert np.abs(got - expected.numpy()).max() < 1e-5
    await reference.close()


async def scored(reference: Reference) -> list[list[np.ndarray]]:
    found = []
    async for output in reference.process(rows()):
        assert output.uids.tolist() == [10, 11, 12]
        found.append(list(output.columns["reference_logprobs"]))
    return found


async def test_a_reference_that_never_loaded_can_be_closed() -> None:
    await Reference().close()
