"""Tiny random models of the families that Megatron trains, beside those of the scoring tests."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from headrace.services.models.precision import full_precision
from tests.services.scoring.models import VOCABULARY

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
}


def qwen3(dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    """Untied, its heads wider than hidden / heads, its norms not of ones."""
    config = Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=False)
    return seeded(Qwen3ForCausalLM, config, dtype)


def scaled_llama(dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    """Tied, its rope scaled as that of Llama 3."""
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 2.0,
        "original_max_position_embeddings": 64,
    }
    config = LlamaConfig(**SIZES, tie_word_embeddings=True, rope_parameters=rope)
    return seeded(LlamaForCausalLM, config, dtype)


def padded_llama(token: int, dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    """Its padding token is one that is read."""
    return seeded(LlamaForCausalLM, LlamaConfig(**SIZES, tie_word_embeddings=True, pad_token_id=token), dtype)


def seeded(kind: type, config: object, dtype: torch.dtype) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = kind(config).to(dtype).eval()
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.data.add_(0.3 * torch.randn_like(parameter))
    if dtype == torch.float64:
        full_precision(model)
    return model
