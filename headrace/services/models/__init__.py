"""Models by name: a recipe of ours, a folder, or a hub id in the local Hugging Face cache.

Nothing is fetched from a network. This module imports nothing heavy: `exists` and `fault` are for `check`.
"""

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services.models import smollm2, tiny_copier, tiny_value
from headrace.services.models.base import LoadedModel, Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "CLASSIFIER",
    "ONE_AT_A_TIME",
    "RECIPES",
    "VALUE_RECIPES",
    "LoadedModel",
    "architecture",
    "check_same_tokens",
    "config_file",
    "exists",
    "fault",
    "load",
    "load_tokenizer",
]

RECIPES: dict[str, Recipe] = {
    "tiny-copier": tiny_copier,
    "smollm2-135m-instruct": smollm2,
    "tiny-value": tiny_value,
}
VALUE_RECIPES = ("tiny-value",)
"""Those that make a value model, which `value.load_value` loads."""
CLASSIFIER = "ForTokenClassification"
"""How the architecture of a value model ends."""
ONE_AT_A_TIME = threading.RLock()
"""Held while a model is made: transformers patches itself meanwhile, for all threads of a process, and a
model made beside another came out with untied or no weights."""


def exists(model: str) -> str | None:
    """None if `load(model)` can find the model, else what is wrong and the ways out."""
    if model in RECIPES:
        return RECIPES[model].missing()
    if config_file(model) is not None:
        return None
    where = "a folder without config.json" if Path(model).is_dir() else "neither a recipe nor a folder"
    return (
        f"model {model!r} is {where}, and no such hub id is in the Hugging Face cache ({_hub_cache()}); "
        f"use one of {', '.join(sorted(RECIPES))}, the path of a folder with config.json, or fetch it first "
        f"with `hf download {model}`"
    )


def fault(model: str) -> str | None:
    """None if `load(model)` finds a language model, else what is wrong and the ways out."""
    if (problem := exists(model)) is not None:
        return problem
    if model not in VALUE_RECIPES and not architecture(model).endswith(CLASSIFIER):
        return None
    return (
        f"model {model!r} is a value model, which makes and scores no tokens; it is for a critic, and for a "
        "trainer whose algorithm is value: name a language model"
    )


def load(model: str, *, dtype: str, seed: int) -> LoadedModel:
    """Loads a language model in eval mode with weights of `dtype` (float32, float64 or bfloat16); float64
    throughout.

    `seed` makes the weights of recipes that start from random ones; the process's own random state is left
    as it was. Raises FileNotFoundError with the ways out when there is no such model, ValueError for a value
    model.
    """
    problem = exists(model)
    if problem is not None:
        raise FileNotFoundError(problem)
    if (problem := fault(model)) is not None:
        raise ValueError(problem)
    with ONE_AT_A_TIME:
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


def check_same_tokens(model: str, other: str) -> None:
    """Raises ValueError where a token of `other` has another id, or none, in `model`."""
    if model == other:
        return
    own, asked = load_tokenizer(model).get_vocab(), load_tokenizer(other).get_vocab()
    odd = sorted(token for token, number in asked.items() if own.get(token) != number)
    if odd:
        raise ValueError(
            f"{len(odd)} of the {len(asked)} tokens of {other!r} have another id or none in {model!r}, such "
            f"as {odd[0]!r}; a model can only score answers of its own tokens: choose one of the same family"
        )


def architecture(model: str) -> str:
    """As the configuration of a folder or of a hub id in the cache names it; "" where it does not."""
    found = None if model in RECIPES else config_file(model)
    named = json.loads(found.read_text()).get("architectures") if found is not None else None
    return named[0] if named else ""


def config_file(model: str) -> Path | None:
    """The config.json of a folder, or of a hub id in the cache; None where there is none."""
    own = Path(model) / "config.json"
    snapshots = _hub_cache() / f"models--{model.replace('/', '--')}" / "snapshots"
    return own if own.is_file() else next(snapshots.glob("*/config.json"), None)


def _hub_cache() -> Path:
    """Where the Hugging Face client keeps what it fetched, by its own environment variables."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
