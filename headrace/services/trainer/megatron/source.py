"""The weights and configuration that a policy starts from, read in parts where its files allow that."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import AutoConfig, GenerationConfig, PretrainedConfig

from headrace.services.models import RECIPES, config_file, load
from headrace.services.trainer.megatron.shards import Tensors
from headrace.services.trainer.tensor_files import TensorFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Hugging Face language model that was found."""

    config: PretrainedConfig = field(repr=False)
    generation: GenerationConfig | None = field(repr=False)
    """None: the model names none."""
    tensors: Tensors = field(repr=False)
    """By Hugging Face name, files' as they were saved; may hold a tied weight twice."""

    def save_configuration(self, directory: Path) -> None:
        """Writes what `from_pretrained` reads besides the weights."""
        self.config.save_pretrained(directory)
        if self.generation is not None:
            self.generation.save_pretrained(directory)


def open_source(model: str, *, dtype: str, seed: int) -> Source:
    """What `models.load` would load. Raises FileNotFoundError with the ways out, ValueError for a value
    model."""
    found = None if model in RECIPES else config_file(model)
    files = sorted(found.parent.glob("*.safetensors")) if found is not None else []
    if found is None or not files:
        return _loaded(model, dtype=dtype, seed=seed)
    config = AutoConfig.from_pretrained(found.parent, local_files_only=True)
    config.dtype = getattr(torch, dtype)
    saved = (found.parent / "generation_config.json").is_file()
    return Source(
        config=config,
        generation=GenerationConfig.from_pretrained(found.parent, local_files_only=True) if saved else None,
        tensors=TensorFiles(files),
    )


def _loaded(model: str, *, dtype: str, seed: int) -> Source:
    loaded = load(model, dtype=dtype, seed=seed).model
    loaded.config.architectures = [type(loaded).__name__]
    return Source(
        config=loaded.config,
        generation=loaded.generation_config,
        tensors={name: parameter.detach() for name, parameter in loaded.named_parameters()},
    )
