"""vLLM on a card: log-probabilities against float32 on the CPU, also of weights that came later."""

import asyncio

import torch

from bench.gpu_check import material
from bench.gpu_check.path import Figures, at_most
from headrace.services.options import RolloutOptions, VllmOptions
from headrace.services.options.policy import Dtype
from headrace.services.rollout.engines import build

CLOSE = {"float32": 1e-4, "bfloat16": 0.1}


def engine(gpus: float) -> Figures:
    return asyncio.run(_generated(gpus, loads=False))


def new_weights(gpus: float) -> Figures:
    return asyncio.run(_generated(gpus, loads=True))


async def _generated(gpus: float, *, loads: bool) -> Figures:
    """With `loads`, answers of weights that came after the start: by the transfer API on a card."""
    dtype: Dtype = "bfloat16" if gpus else "float32"
    options = RolloutOptions(
        engine="vllm",
        gpus=gpus,
        max_new_tokens=12,
        temperature=material.TEMPERATURE,
        max_concurrent=16,
        vllm=VllmOptions(gpu_memory_utilization=0.3, max_model_len=64),
    )
    engine, asked = await build(options, material.policy(dtype), seed=material.SEED), material.requests()
    seed = material.SEED + loads
    try:
        if loads:
            kept = material.plain(dtype, seed).state_dict().items()
            given = {name: tensor for name, tensor in kept if name != "lm_head.weight"}
            await engine.load(1, {name: tensor.to(getattr(torch, dtype)) for name, tensor in given.items()})
        answers = await material.collected(engine, asked)
    finally:
        await engine.close()
    if {version for answer in answers for version in answer.versions.tolist()} != {int(loads)}:
        raise AssertionError("tokens carry another version than the one that was loaded")
    off = material.furthest(material.plain(dtype, seed), asked, answers)
    return {"difference": at_most("difference of log-probabilities", off, CLOSE[dtype])}
