"""Engines by name. `build` loads what an engine needs only when it is asked for."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headrace.services.options import PolicyOptions, RolloutOptions
from headrace.services.rollout.engines.base import (
    NOT_SERVED,
    OWN,
    Carry,
    Completion,
    Engine,
    EngineDied,
    FinishReason,
    OverNewWeights,
    Request,
    Sampling,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "ENGINES",
    "NOT_SERVED",
    "OWN",
    "Carry",
    "Completion",
    "Engine",
    "EngineDied",
    "FinishReason",
    "OverNewWeights",
    "Request",
    "Sampling",
    "build",
    "tokenizer",
]


async def build(
    options: RolloutOptions,
    policy: PolicyOptions | None,
    *,
    seed: int,
    version: int = 0,
    group_by_group: bool = False,
) -> Engine:
    """The engine of a rollout replica, with the policy's initial weights (`seed`) called `version`.

    A model is loaded in a thread, so that the event loop stays free. Cancelled meanwhile, it waits for the
    thread, which cannot be stopped, and closes what came of it. `group_by_group`: see `TorchEngine`; a
    script's answers are so in any case.
    """
    engine = ENGINES[options.engine]
    if group_by_group and engine is _torch:
        engine = partial(_torch, group_by_group=True)
    making = asyncio.get_running_loop().run_in_executor(None, engine, options, policy, seed, version)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        while not making.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({making})
        if making.exception() is None:
            await making.result().close()
        raise


async def tokenizer(
    options: RolloutOptions, policy: PolicyOptions | None
) -> "PreTrainedTokenizerBase | None":
    """That of the ids which the engine makes; None for scripted ones, which are of no tokenizer."""
    if options.engine == "fake" or policy is None:
        return None
    from headrace.services.models import load_tokenizer

    return await asyncio.to_thread(load_tokenizer, policy.model)


def _torch(
    options: RolloutOptions,
    policy: PolicyOptions | None,
    seed: int,
    version: int,
    *,
    group_by_group: bool = False,
) -> Engine:
    if policy is None:
        raise ValueError(
            "the torch engine serves a policy's model, got no policy; name one on the rollout node"
        )
    from headrace.services.devices import take
    from headrace.services.models.policy import load_policy
    from headrace.services.rollout.engines.torch_engine import TorchEngine

    loaded = load_policy(policy, seed=seed, device=take(options.gpus))
    sampling = Sampling(
        temperature=options.temperature,
        max_new_tokens=options.max_new_tokens,
        stop_token_ids=loaded.stop_token_ids,
    )
    return TorchEngine(
        loaded.model,
        sampling,
        max_concurrent=options.max_concurrent,
        over_new_weights=options.over_new_weights,
        version=version,
        group_by_group=group_by_group,
    )


def _vllm(options: RolloutOptions, policy: PolicyOptions | None, seed: int, version: int) -> Engine:
    if policy is None:
        raise ValueError(
            "the vllm engine serves a policy's model, got no policy; name one on the rollout node"
        )
    from headrace.services.rollout.engines.vllm.engine import start

    return start(options, policy, seed=seed, version=version)


def _fake(options: RolloutOptions, policy: PolicyOptions | None, seed: int, version: int) -> Engine:
    from headrace.services.rollout.engines.fake import FakeEngine, Script

    return FakeEngine(
        Script.parse(options.fake),
        max_new_tokens=options.max_new_tokens,
        max_concurrent=options.max_concurrent,
        over_new_weights=options.over_new_weights,
        version=version,
    )


def _openai(options: RolloutOptions, policy: PolicyOptions | None, seed: int, version: int) -> Engine:
    from headrace.services.rollout.engines.openai_engine import OpenaiEngine

    if options.openai is None:
        raise ValueError("engine: openai asks a server, got none; set openai: {base_url: ..., model: ...}")
    if version == NOT_SERVED:
        raise ValueError(
            "engine: openai answers with its server's own weights, and a trainer publishes others; "
            "use engine: torch"
        )
    sampling = Sampling(temperature=options.temperature, max_new_tokens=options.max_new_tokens)
    return OpenaiEngine(options.openai, sampling, max_concurrent=options.max_concurrent, version=version)


ENGINES: dict[str, Callable[[RolloutOptions, PolicyOptions | None, int, int], Engine]] = {
    "torch": _torch,
    "vllm": _vllm,
    "openai": _openai,
    "fake": _fake,
}
