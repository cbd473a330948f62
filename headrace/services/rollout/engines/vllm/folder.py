"""A policy's model as a folder in the Hugging Face format, which is what vLLM loads from."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.services.models import RECIPES, config_file, load
from headrace.services.models.pretrained import saved_stop_token_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedModel:
    folder: Path
    stop_token_ids: tuple[int, ...]


@contextmanager
def saved_model(model: str, *, dtype: str, seed: int) -> Iterator[SavedModel]:
    """Where `load(model)` lies; one that is drawn from a seed lies there only within the block."""
    recipe = RECIPES.get(model)
    found = config_file(model) if recipe is None else None
    folder = found.parent if found is not None else recipe.folder() if recipe is not None else None
    if folder is not None:
        yield SavedModel(folder=folder, stop_token_ids=saved_stop_token_ids(folder))
        return
    drawn = load(model, dtype=dtype, seed=seed)
    with tempfile.TemporaryDirectory(prefix="headrace-model-") as aside:
        drawn.model.save_pretrained(aside)
        stops = drawn.stop_token_ids
        del drawn
        yield SavedModel(folder=Path(aside), stop_token_ids=stops)
