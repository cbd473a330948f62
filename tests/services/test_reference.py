"""The reference against a forward pass of the initial model, one answer at a time."""

import asyncio
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from headrace.services.models import load
from headrace.services.options import ReferenceOptions
from headrace.services.reference import Reference
from headrace.transferqueue import Client
from tests.services.bench import Remembered, context
from tests.services.scored_rows import ANSWERS, PROMPTS, scored


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
    for column in await asyncio.gather(*[scored(reference, "reference_logprobs") for _ in range(2)]):
        for prompt, answer, got in zip(PROMPTS, ANSWERS, column, strict=True):
            expected = directly(prompt, answer, seed=3, temperature=0.5)
            assert np.abs(got - expected.numpy()).max() < 1e-5
    await reference.close()


async def test_a_reference_that_never_loaded_can_be_closed() -> None:
    await Reference().close()
