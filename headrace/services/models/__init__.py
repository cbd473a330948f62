"""Models by name: a recipe of ours, a folder, or a hub id in the local Hugging Face cache.

Nothing is fetched from a network. This module imports nothing heavy: `exists` is for `check`.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services.models import smollm2, tiny_copier
from headrace.services.models.base import LoadedModel, Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["RECIPES", "LoadedModel", "exists", "load", "load_tokenizer"]

RECIPES: dict[str, Recipe] = {
    "tiny-copier": tiny_copier,
    "smollm2-135m-instruct": smollm2,
}


def exists(model: str) -> str | None:
    """None if `load(model)` can find the model, else what is wrong and the ways out."""
    if model in RECIPES:
        return RECIPES[model].missing()
    if (Path(model) / "config.json").is_file() or _is_cached(model):
        return None
    where = "a folder without config.json" if Path(model).is_dir() else "neither a recipe nor a folder"
    return (
        f"model {model!r} is {where}, and no such hub id is in the Hugging Face cache ({_hub_cache()}); "
        f"use one of {', '.join(sorted(RECIPES))}, the path of a folder with config.json, or fetch it first "
        f"with `hf download {model}`"
    )


def load(model: str, *, dtype: str, seed: int) -> LoadedModel:
    """Loads `model` in eval mode with weights of `dtype` (float32, float64 or bfloat16); float64 throughout.

    `seed` makes the weights of recipes that start from random ones; the process's own random state is left
    as it was. Raises FileNotFoundError with the ways out when there is no such model.
    """
    problem = exists(model)
    if problem is not None:
        raise FileNotFoundError(problem)
    if model in RECIPES:
        loaded = RECIPES[model].load(dtype=dtype, seed=seed)
    else:
        from headrace.services.models.pretrained import load_pretrained

        loaded = load_pretrained(model, dtype=dtype)
    if dtype == "float64":
        from headrace.services.models.precision import full_precision

        full_precision(loaded.model)
    return loaded


def load_tokenizer(model: str) -> "PreTrainedTokenizerBase":
    """The tokenizer of `load(model)`, without its weights. Raises FileNotFoundError with the ways out."""
    problem = exists(model)
    if problem is not None:
        raise FileNotFoundError(problem)
    if model in RECIPES:
        return RECIPES[model].tokenizer()
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model, local_files_only=True)


def _is_cached(model: str) -> bool:
    snapshots = _hub_cache() / f"models--{model.replace('/', '--')}" / "snapshots"
    return any(snapshots.glob("*/config.json"))


def _hub_cache() -> Path:
    """Where the Hugging Face client keeps what it fetched, by its own environment variables."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
