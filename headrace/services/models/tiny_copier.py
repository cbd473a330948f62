"""`tiny-copier`: a Llama of 527 thousand random weights and 13 tokens, which learns to copy in a minute.

Head size 32, so that vLLM can run it too. The weights follow from the seed alone.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services.models.base import LoadedModel, ModelSize

if TYPE_CHECKING:
    import torch
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        LlamaForTokenClassification,
        PreTrainedTokenizerFast,
    )

PAD, END = "<pad>", "$"
VOCABULARY = (PAD, END, ">", *"abcdefghij")


SIZE = ModelSize(
    parameters=526_592,
    layers=2,
    hidden=128,
    intermediate=512,
    kv_heads=4,
    head_size=32,
    vocabulary=len(VOCABULARY),
)


def missing() -> str | None:
    return None


def size() -> ModelSize:
    return SIZE


def folder() -> Path | None:
    return None


def load(*, dtype: str, seed: int) -> LoadedModel:
    """Weights are drawn in float32 from `seed` and then cast to `dtype`."""
    import torch
    from transformers import LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config())
    draw_weights(model, torch.Generator().manual_seed(seed))
    return finished(model, dtype=dtype)


def config() -> "LlamaConfig":
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=SIZE.vocabulary,
        hidden_size=SIZE.hidden,
        intermediate_size=SIZE.intermediate,
        num_hidden_layers=SIZE.layers,
        num_attention_heads=SIZE.kv_heads,
        num_key_value_heads=SIZE.kv_heads,
        max_position_embeddings=2048,
        initializer_range=0.05,
        tie_word_embeddings=True,
        pad_token_id=VOCABULARY.index(PAD),
        eos_token_id=VOCABULARY.index(END),
        bos_token_id=None,
    )


def draw_weights(
    model: "LlamaForCausalLM | LlamaForTokenClassification", generator: "torch.Generator"
) -> None:
    """Normal matrices, norms of one, and a padding token of zero, whatever other threads draw meanwhile."""
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data.normal_(0.0, model.config.initializer_range, generator=generator)
    model.model.embed_tokens.weight.data[VOCABULARY.index(PAD)] = 0.0


def finished(model: "LlamaForCausalLM | LlamaForTokenClassification", *, dtype: str) -> LoadedModel:
    """The model in eval mode with weights of `dtype`, and what goes with its tokens."""
    import torch

    model.set_attn_implementation("sdpa")
    return LoadedModel(
        model=model.to(getattr(torch, dtype)).eval(),
        tokenizer=tokenizer(),
        stop_token_ids=(VOCABULARY.index(END),),
    )


def tokenizer() -> "PreTrainedTokenizerFast":
    """One token a character; text outside the vocabulary becomes the padding token."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}, unk_token=PAD))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"<pad>|."), behavior="isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PAD, eos_token=END, padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
