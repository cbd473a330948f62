"""Starts vLLM for a policy and puts it behind the decode loop.

engine = start(options, policy, seed=0, version=0)
async for completions in engine.generate(requests): ...
await engine.load(1, weights)
await engine.close()
"""

from pathlib import Path
from typing import Any

import torch

from headrace.services.models import ONE_AT_A_TIME, load
from headrace.services.options import PolicyOptions, RolloutOptions
from headrace.services.rollout.engines.base import Sampling
from headrace.services.rollout.engines.decode_loop import DecodeLoop
from headrace.services.rollout.engines.vllm.adapted import Adapted
from headrace.services.rollout.engines.vllm.adapters import choose
from headrace.services.rollout.engines.vllm.capabilities import probe
from headrace.services.rollout.engines.vllm.decoder import VllmDecoder
from headrace.services.rollout.engines.vllm.folder import saved_model
from headrace.services.rollout.engines.vllm.in_process import InProcess, prepare
from headrace.services.rollout.engines.vllm.shape import ModelShape

GIB = 1 << 30
STEP_TOKENS = 2048
"""Fewest tokens that a step on a CPU may read, prompts and answers together."""


def start(options: RolloutOptions, policy: PolicyOptions, *, seed: int, version: int) -> DecodeLoop:
    """The engine with the policy's own weights, called `version`; takes many seconds."""
    decoder = start_decoder(options, policy, seed=seed, version=version)
    return DecodeLoop(decoder, over_new_weights=options.over_new_weights)


def start_decoder(options: RolloutOptions, policy: PolicyOptions, *, seed: int, version: int) -> VllmDecoder:
    """As `start`, without the loop."""
    prepare(gpu=torch.cuda.is_available())
    found = probe()
    weights = choose(found, ranks=options.vllm.tensor_parallel)
    with saved_model(policy.model, dtype=policy.precision, seed=seed) as saved:
        shape = ModelShape(
            saved.folder, dtype=policy.precision, longest=options.vllm.max_model_len, lora=policy.lora
        )
        sampling = Sampling(
            temperature=options.temperature,
            max_new_tokens=options.max_new_tokens,
            stop_token_ids=saved.stop_token_ids,
        )
        fields = engine_fields(
            options, saved.folder, dtype=policy.precision, longest=shape.longest, gpu=found.gpu
        )
        with ONE_AT_A_TIME:
            llm = InProcess(fields | weights.engine_fields(), weights, found)
    served = shape if policy.lora is None else Adapted(shape, base_weights(policy, seed=seed), policy.lora)
    return VllmDecoder(llm, served, sampling, max_concurrent=options.max_concurrent, version=version)


def base_weights(policy: PolicyOptions, *, seed: int) -> dict[str, torch.Tensor]:
    """What adapters are added to, in the memory of this process."""
    return dict(load(policy.model, dtype=policy.precision, seed=seed).model.state_dict())


def engine_fields(
    options: RolloutOptions, folder: Path, *, dtype: str, longest: int, gpu: bool
) -> dict[str, Any]:
    """Of vLLM's EngineArgs. Steps are not overlapped, so that a step returns every token that it drew.

    On a CPU prompts are read whole: a seeded sample whose prompt is read in parts ends vLLM 0.32 there.
    """
    own = options.vllm
    machine: dict[str, Any] = (
        {"gpu_memory_utilization": own.gpu_memory_utilization}
        if gpu
        else {
            "kv_cache_memory_bytes": int(own.cpu_cache_gib * GIB),
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(longest, options.max_concurrent, STEP_TOKENS),
        }
    )
    return {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "dtype": dtype,
        "max_model_len": longest,
        "max_num_seqs": options.max_concurrent,
        "logprobs_mode": "processed_logprobs",
        "async_scheduling": False,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "enforce_eager": own.enforce_eager or not gpu,
        "tensor_parallel_size": own.tensor_parallel,
        "distributed_executor_backend": "uni" if own.tensor_parallel == 1 else "mp",
        **machine,
    }
