"""Whatever its attention, a model's log-probabilities are those of its own forward pass."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from headrace.services.rollout.engines.base import Sampling
from headrace.services.rollout.engines.torch_engine import TorchEngine

SMALL: dict[str, Any] = {
    "vocab_size": 13,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}

MODELS: dict[str, tuple[Callable[[], PreTrainedModel], bool]] = {
    "grouped query heads": (lambda: LlamaForCausalLM(LlamaConfig(**SMALL)), True),
    "qwen2": (lambda: Qwen2ForCausalLM(Qwen2Config(**SMALL)), True),
    "gpt2": (
        lambda: GPT2LMHeadModel(
            GPT2Config(vocab_size=13, n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.3,
                       bos_token_id=None, eos_token_id=None)
        ),
        True,
    ),
    "sliding window": (lambda: MistralForCausalLM(MistralConfig(**SMALL, sliding_window=5)), False),
    "window in every second layer": (
        lambda: Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=8, sliding_window=5)),
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
async def test_an_architecture_decodes_as_its_forward_pass_says(
    name: str, requests: Any, collect: Any, plain_logprobs: Any
) -> None:
    make, cascades = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make().eval()
    plain = copy.deepcopy(model)
    engine = TorchEngine(
        model, Sampling(temperature=0.7, max_new_tokens=12, stop_token_ids=(1,)), max_concurrent=7
    )
    completions = await collect(engine, requests())
    await engine.close()
    assert (model.config._attn_implementation == "headrace_cascade") == cascades
    for request in requests():
        completion = completions[request.uid]
        expected = plain_logprobs(plain, request, completion, 0.7)
        np.testing.assert_allclose(completion.logprobs, expected, rtol=0.0, atol=1e-5)
