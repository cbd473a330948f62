"""Value models: a token classifier with one label, by a recipe's name, from a folder or the local cache.

`fault` reads the model's configuration alone and imports nothing heavy: it is for `check`.
"""

import json
from typing import TYPE_CHECKING

from headrace.services.models import (
    CLASSIFIER,
    ONE_AT_A_TIME,
    RECIPES,
    VALUE_RECIPES,
    architecture,
    config_file,
    load_tokenizer,
)
from headrace.services.models.base import LoadedModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNSAID_LABELS = 2
"""Labels of a configuration that does not name them, by transformers' own default."""


def fault(model: str) -> str | None:
    """None if `load_value(model)` finds a value model, else what is wrong and the way out."""
    if model in VALUE_RECIPES:
        return RECIPES[model].missing()
    way_out = (
        f"name {' or '.join(VALUE_RECIPES)}, or give a folder saved from AutoModelForTokenClassification "
        "with num_labels=1, its tokenizer beside it"
    )
    if model in RECIPES:
        return f"model {model!r} is a language model, which predicts no values; {way_out}"
    found = config_file(model)
    if found is None:
        return f"model {model!r} is no folder with config.json and not in the Hugging Face cache; {way_out}"
    config = json.loads(found.read_text())
    kind = architecture(model)
    if not kind.endswith(CLASSIFIER):
        return f"model {model!r} is of the architecture {kind or 'none'}, which predicts no values; {way_out}"
    labels = len(config.get("id2label", range(UNSAID_LABELS)))
    if labels != 1:
        return f"model {model!r} has {labels} labels for each token, a value is one; {way_out}"
    return None


def load_value(model: str, *, dtype: str, seed: int) -> LoadedModel:
    """The model in eval mode with weights of `dtype` (float32, float64 or bfloat16); float64 throughout.

    `seed` makes the weights of recipes that start from random ones. Raises ValueError where it is no value
    model.
    """
    problem = fault(model)
    if problem is not None:
        raise ValueError(problem)
    recipe = RECIPES.get(model)
    with ONE_AT_A_TIME:
        loaded = recipe.load(dtype=dtype, seed=seed) if recipe is not None else _saved(model, dtype=dtype)
    if dtype == "float64":
        from headrace.services.models.precision import full_precision

        full_precision(loaded.model)
    return loaded


def _saved(model: str, *, dtype: str) -> LoadedModel:
    import torch
    from transformers import AutoModelForTokenClassification

    classifier: PreTrainedModel = AutoModelForTokenClassification.from_pretrained(
        model, dtype=getattr(torch, dtype), attn_implementation="sdpa", local_files_only=True
    )
    return LoadedModel(model=classifier.eval(), tokenizer=load_tokenizer(model), stop_token_ids=())
