"""Value models: a Hugging Face token classifier with one label, from a folder or the local cache.

`fault` reads the model's configuration alone and imports nothing heavy: it is for `check`.
"""

import json
from typing import TYPE_CHECKING

from headrace.services.models import config_file

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNSAID_LABELS = 2
"""Labels of a configuration that does not name them, by transformers' own default."""


def fault(model: str) -> str | None:
    """None if `load_value(model)` finds a value model, else what is wrong and the way out."""
    way_out = (
        "give a folder saved from AutoModelForTokenClassification with num_labels=1, its tokenizer beside it"
    )
    found = config_file(model)
    if found is None:
        return f"model {model!r} is no folder with config.json and not in the Hugging Face cache; {way_out}"
    config = json.loads(found.read_text())
    kinds = config.get("architectures") or ["none"]
    if not kinds[0].endswith("ForTokenClassification"):
        return f"model {model!r} is of the architecture {kinds[0]}, which predicts no values; {way_out}"
    labels = len(config.get("id2label", range(UNSAID_LABELS)))
    if labels != 1:
        return f"model {model!r} has {labels} labels for each token, a value is one; {way_out}"
    return None


def load_value(model: str, *, dtype: str) -> "PreTrainedModel":
    """The model in eval mode with weights of `dtype`. Raises ValueError where it is no value model."""
    problem = fault(model)
    if problem is not None:
        raise ValueError(problem)
    import torch
    from transformers import AutoModelForTokenClassification

    loaded = AutoModelForTokenClassification.from_pretrained(
        model, dtype=getattr(torch, dtype), attn_implementation="sdpa", local_files_only=True
    )
    if dtype == "float64":
        from headrace.services.models.precision import full_precision

        full_precision(loaded)
    return loaded.eval()
