"""Tiny random models of several architectures, and the naive forward pass they are compared on."""

import numpy as np
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from headrace.services.models.precision import full_precision

VOCABULARY = 23


def llama(dtype: torch.dtype = torch.float64, *, key_value_heads: int = 4) -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=key_value_heads,
        max_position_embeddings=512,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    return _seeded(LlamaForCausalLM, config, dtype)


def grouped_query_llama(dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    return llama(dtype, key_value_heads=2)


def qwen2(dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        tie_word_embeddings=False,
    )
    return _seeded(Qwen2ForCausalLM, config, dtype)


def gpt2(dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=512,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _seeded(GPT2LMHeadModel, config, dtype)


ARCHITECTURES = [llama, grouped_query_llama, qwen2, gpt2]


def naive_logprobs(
    model: PreTrainedModel, prompts: list[np.ndarray], responses: list[np.ndarray], temperature: float
) -> list[torch.Tensor]:
    """One unpacked, right-padded batch; the same model class, before its attention is replaced."""
    rows = [torch.tensor(np.concatenate((p, r))) for p, r in zip(prompts, responses, strict=True)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    logprobs = (logits / temperature).log_softmax(-1)
    out = []
    for row, prompt, response in zip(logprobs, prompts, responses, strict=True):
        predicting = row[len(prompt) - 1 : len(prompt) + len(response) - 1]
        out.append(predicting.gather(-1, torch.tensor(response, dtype=torch.int64)[:, None])[:, 0])
    return out


def _seeded(kind: type, config: object, dtype: torch.dtype) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = kind(config).to(dtype).eval()
    if dtype == torch.float64:
        full_precision(model)
    return model
