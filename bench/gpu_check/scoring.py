"""Log-probabilities of the torch engine and of the packed model, against float32 on the CPU."""

import asyncio

import numpy as np
import torch

from bench.gpu_check import material
from bench.gpu_check.path import Figures, at_most
from headrace.services.devices import take
from headrace.services.models.policy import load_policy
from headrace.services.options import RolloutOptions
from headrace.services.options.policy import Dtype
from headrace.services.rollout.engines import build
from headrace.services.scoring.model import PackedModel
from headrace.services.scoring.score import score

CLOSE = {"float32": 1e-4, "bfloat16": 0.1}


def scores(gpus: float) -> Figures:
    batch = material.samples()
    loaded = load_policy(material.policy("float32"), seed=material.SEED, device=take(gpus))
    packed = PackedModel(loaded.model, temperature=material.TEMPERATURE)
    found = score(packed.logprobs, batch.prompt_ids, batch.response_ids, batch.groups, max_tokens=60)
    plain = material.plain()
    due = [
        material.logprobs(plain, prompt, answer, material.TEMPERATURE)
        for prompt, answer in zip(batch.prompt_ids, batch.response_ids, strict=True)
    ]
    off = float(np.abs(np.concatenate(found) - np.concatenate(due)).max())
    return {"difference": at_most("difference of log-probabilities", off, CLOSE["float32"])}


def engine_float32(gpus: float) -> Figures:
    return asyncio.run(_generated(gpus, "float32"))


def engine_bfloat16(gpus: float) -> Figures:
    return asyncio.run(_generated(gpus, "bfloat16"))


def new_weights(gpus: float) -> Figures:
    return asyncio.run(_swapped(gpus))


async def _generated(gpus: float, dtype: Dtype) -> Figures:
    engine = await build(_options(gpus), material.policy(dtype), seed=material.SEED)
    asked = material.requests()
    try:
        answers = await material.collected(engine, asked)
    finally:
        await engine.close()
    off = material.furthest(material.plain(dtype), asked, answers)
    return {"difference": at_most("difference of log-probabilities", off, CLOSE[dtype])}


async def _swapped(gpus: float) -> Figures:
    """Weights from the host's memory in the place of those that a card holds."""
    engine = await build(_options(gpus), material.policy("float32"), seed=material.SEED)
    other, asked = material.plain(seed=material.SEED + 1), material.requests()
    weights = {name: tensor for name, tensor in other.state_dict().items() if name != "lm_head.weight"}
    try:
        await engine.load(1, weights)
        answers = await material.collected(engine, asked)
    finally:
        await engine.close()
    if {version for answer in answers for version in answer.versions.tolist()} != {1}:
        raise AssertionError("tokens carry another version than the one that was loaded")
    off = material.furthest(other, asked, answers)
    return {"difference": at_most("difference of log-probabilities", off, CLOSE["float32"])}


def _options(gpus: float) -> RolloutOptions:
    torch.manual_seed(0)
    return RolloutOptions(
        engine="torch", gpus=gpus, max_new_tokens=12, temperature=material.TEMPERATURE, max_concurrent=16
    )
