"""`tiny-value`: a value model over the tokens of tiny-copier, with the body that a seed gives that one.

Its values begin at 0, so that the first credit is the return itself.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services.models import tiny_copier
from headrace.services.models.base import LoadedModel, ModelSize

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def missing() -> str | None:
    return None


def size() -> ModelSize:
    """The body of tiny-copier, and a weight for each of its outputs and one beside them."""
    body = tiny_copier.SIZE
    return replace(body, parameters=body.parameters + body.hidden + 1)


def folder() -> Path | None:
    return None


def load(*, dtype: str, seed: int) -> LoadedModel:
    """Weights are drawn in float32 from `seed` and then cast to `dtype`."""
    import torch
    from transformers import LlamaForTokenClassification

    config = tiny_copier.config()
    config.num_labels = 1
    with torch.random.fork_rng(devices=[]):
        model = LlamaForTokenClassification(config)
    tiny_copier.draw_weights(model, torch.Generator().manual_seed(seed))
    torch.nn.init.zeros_(model.score.weight)
    torch.nn.init.zeros_(model.score.bias)
    return tiny_copier.finished(model, dtype=dtype)


def tokenizer() -> "PreTrainedTokenizerFast":
    return tiny_copier.tokenizer()
