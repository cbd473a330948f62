"""How large a model is, read without loading it: from a recipe, or from a folder's config and headers.

Imports nothing heavy: it is for `check` and `plan`.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.services.models import RECIPES, config_file
from headrace.services.models.base import ModelSize

LENGTH = 8
"""Bytes before the header of a safetensors file, which say how long it is."""


def size(model: str) -> ModelSize | None:
    """Of what `load(model)` loads; None where config.json does not say it or there are no safetensors."""
    if model in RECIPES:
        return RECIPES[model].size()
    found = config_file(model)
    return None if found is None else folder_size(found.parent)


def folder_size(folder: Path) -> ModelSize | None:
    """Of a model in the Hugging Face format; None as in `size`."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        config = config.get("text_config") or config
        parameters = sum(_numbers(path) for path in folder.glob("*.safetensors"))
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        return (
            ModelSize(
                parameters=parameters,
                layers=config["num_hidden_layers"],
                hidden=hidden,
                intermediate=config["intermediate_size"],
                kv_heads=config.get("num_key_value_heads") or heads,
                head_size=config.get("head_dim") or hidden // heads,
                vocabulary=config["vocab_size"],
            )
            if parameters
            else None
        )
    except (KeyError, ValueError):
        return None


def _numbers(path: Path) -> int:
    with path.open("rb") as file:
        header: Mapping[str, Any] = json.loads(file.read(int.from_bytes(file.read(LENGTH), "little")))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
