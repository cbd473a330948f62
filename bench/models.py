"""The two models of the loop benchmark, as Hugging Face folders: every side has the same weights and tokens.

Run by a side's own Python, so that only torch and transformers are needed.
"""

import argparse
import math
from pathlib import Path

import countdown
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LETTERS = "abcdefghij"
COPY_VOCABULARY = ["<pad>", "$", ">", *LETTERS]
SHARPNESS = 40.0
"""Logit of the one right next number; the nearest wrong one is more than 15 below."""
PERTURBATION = 1e-5
"""Scale of the attention's and the MLP's output weights: real work and gradients, little effect."""


def tokenizer(vocabulary: list[str], pattern: str) -> PreTrainedTokenizerFast:
    """One token per match of `pattern`."""
    core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="$", padding_side="left"
    )


def config(vocabulary: list[str], *, positions: int, tied: bool) -> LlamaConfig:
    """The peer's Llama: 2 layers, width 128, 4 heads."""
    return LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=positions,
        initializer_range=0.05,
        tie_word_embeddings=tied,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )


def make_copier(folder: Path, seed: int) -> None:
    """The peer's model of random weights for the copy task."""
    torch.manual_seed(seed)
    save(
        LlamaForCausalLM(config(COPY_VOCABULARY, positions=64, tied=True)),
        COPY_VOCABULARY,
        r"<pad>|.",
        folder,
    )


def make_counter(folder: Path, seed: int) -> None:
    """A model that, after the separator, draws k from the log-normal and counts down from it.

    The weights are set, not trained: embeddings have one length (the separator's orthogonal to all others),
    and a token's output row points at the embedding of its predecessor in the count.
    """
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config(countdown.VOCABULARY, positions=1024, tied=False))
    size, width = len(countdown.VOCABULARY), model.config.hidden_size
    tokens = torch.randn(size, width)
    tokens[:, 0] = 0.0
    tokens[countdown.SEPARATOR] = torch.eye(width)[0]
    tokens /= tokens.norm(dim=1, keepdim=True)
    rows = torch.zeros(size, width)
    numbers = torch.arange(countdown.FIRST_NUMBER, size)
    rows[numbers[:-1]] = SHARPNESS * tokens[numbers[1:]]
    rows[countdown.END] = SHARPNESS * tokens[countdown.FIRST_NUMBER]
    rows[:, 0] = -SHARPNESS
    drawable = numbers[: countdown.LONGEST]
    rows[drawable, 0] = torch.tensor(countdown.lengths()).log()
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(tokens * math.sqrt(width))
        model.lm_head.weight.copy_(rows / math.sqrt(width))
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(PERTURBATION / model.config.initializer_range)
    save(model, countdown.VOCABULARY, r"<pad>|t[0-9]+|[$>]", folder)


def save(model: LlamaForCausalLM, vocabulary: list[str], pattern: str, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer(vocabulary, pattern).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["copy", "lognormal"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    {"copy": make_copier, "lognormal": make_counter}[args.work](args.folder, args.seed)


if __name__ == "__main__":
    main()
