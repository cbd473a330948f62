"""A model from a folder or from the local Hugging Face cache; the network is never asked."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from headrace.services.models.base import LoadedModel


def load_pretrained(model: str | Path, *, dtype: str) -> LoadedModel:
    """Loads weights, tokenizer and stop tokens as they were saved."""
    loaded = AutoModelForCausalLM.from_pretrained(
        model,
        dtype=getattr(torch, dtype),
        attn_implementation="sdpa",
        local_files_only=True,
        use_safetensors=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    return LoadedModel(
        model=loaded.eval(), tokenizer=tokenizer, stop_token_ids=stop_token_ids(loaded, tokenizer)
    )


def stop_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends an answer: those of the generation config, the config and the tokenizer's eos."""
    return _eos_of(model.generation_config, model.config, tokenizer)


def saved_stop_token_ids(folder: Path) -> tuple[int, ...]:
    """`stop_token_ids` of a folder's model, without its weights."""
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    own = (folder / "generation_config.json").is_file()
    generation = GenerationConfig.from_pretrained(folder, local_files_only=True) if own else None
    return _eos_of(generation, config, AutoTokenizer.from_pretrained(folder, local_files_only=True))


def _eos_of(*told: Any) -> tuple[int, ...]:
    named = [getattr(one, "eos_token_id", None) for one in told]
    ids = {int(i) for one in named if one is not None for i in (one if isinstance(one, list) else [one])}
    return tuple(sorted(ids))
