"""The tiny model, prompts and batches that the paths share; and what a plain forward pass says of answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from headrace.algorithms.base import Algorithm
from headrace.algorithms.options import GrpoOptions
from headrace.algorithms.registry import Recipe
from headrace.services.models import load
from headrace.services.options import OptimizerOptions, PolicyOptions
from headrace.services.options.policy import Dtype
from headrace.services.rollout.engines.base import Completion, Request
from headrace.services.trainer.samples import Samples

MODEL, SEED, TEMPERATURE = "tiny-copier", 3, 1.2
LETTERS = 3, 13
"""Ids of the model's letters: from, to before."""
RECIPE = Recipe(options=GrpoOptions(kl_coef=0.1), max_new_tokens=8, step=0)


def policy(dtype: Dtype) -> PolicyOptions:
    return PolicyOptions(model=MODEL, dtype=dtype, optimizer=OptimizerOptions(lr=1e-3))


def algorithm() -> Algorithm:
    return RECIPE.build()


def plain(dtype: Dtype = "float32", seed: int = SEED) -> PreTrainedModel:
    """On the CPU, in float32; weights rounded to `dtype` first."""
    return load(MODEL, dtype=dtype, seed=seed).model.float()


def requests(groups: int = 8, samples: int = 4) -> list[Request]:
    draws = np.random.default_rng(0)
    prompts = [draws.integers(*LETTERS, size=draws.integers(2, 20)).astype(np.int32) for _ in range(groups)]
    return [
        Request(uid=uid, group=uid // samples, prompt_ids=prompts[uid // samples], seed=uid)
        for uid in range(groups * samples)
    ]


def samples(groups: int = 6, each: int = 4) -> Samples:
    """Groups of answers of 1 to 8 tokens, about a fifth of which are masked."""
    draws, size = np.random.default_rng(1), groups * each
    prompts = [draws.integers(*LETTERS, size=draws.integers(1, 10)) for _ in range(groups)]
    lengths = draws.integers(1, 9, size=size).tolist()
    return Samples(
        uids=np.arange(size),
        groups=np.repeat(np.arange(groups), each),
        prompt_ids=[prompt for prompt in prompts for _ in range(each)],
        response_ids=[draws.integers(*LETTERS, size=n).astype(np.int32) for n in lengths],
        behaviour_logprobs=[-2.5 + 0.1 * draws.standard_normal(n) for n in lengths],
        loss_mask=[(draws.random(n) > 0.2).astype(np.int8) for n in lengths],
        rewards=draws.integers(0, 2, size).astype(np.float64),
        advantages=draws.standard_normal(size),
        reference_logprobs=[-2.5 + 0.1 * draws.standard_normal(n) for n in lengths],
    )


@torch.no_grad()
def logprobs(
    model: PreTrainedModel, prompt: np.ndarray, answer: np.ndarray, temperature: float
) -> np.ndarray:
    """[length] of the answer, from one pass over prompt and answer without a cache."""
    ids = torch.from_numpy(np.concatenate([prompt, answer]).astype(np.int64))
    logits = model(input_ids=ids[None]).logits[0, len(prompt) - 1 : -1]
    spoken = torch.log_softmax(logits / temperature, dim=-1)
    return spoken.gather(1, ids[len(prompt) :, None])[:, 0].numpy()


def furthest(model: PreTrainedModel, asked: Sequence[Request], answers: Sequence[Completion]) -> float:
    """Largest distance of a stored log-probability from that of `model`'s forward pass."""
    prompts = {request.uid: request.prompt_ids for request in asked}
    if sorted(answer.uid for answer in answers) != sorted(prompts):
        raise AssertionError(f"{len(answers)} answers to {len(prompts)} requests")
    return max(
        float(np.abs(each.logprobs - logprobs(model, prompts[each.uid], each.token_ids, TEMPERATURE)).max())
        for each in answers
    )


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Largest of any number of the two. Raises AssertionError where their names differ."""
    if one.keys() != other.keys():
        raise AssertionError(f"names differ: {sorted(one.keys() ^ other.keys())[:3]}")
    return max(float((one[name].cpu().double() - other[name].cpu().double()).abs().max()) for name in one)


async def collected(engine: Any, asked: Sequence[Request]) -> list[Completion]:
    return [answer async for answers in engine.generate(asked) for answer in answers]
