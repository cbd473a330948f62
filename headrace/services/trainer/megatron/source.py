"""The weights and configuration that a policy starts from, a tensor at a time where its files allow that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, GenerationConfig, PretrainedConfig

from headrace.services.models import RECIPES, config_file, load

WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Hugging Face language model that was found."""

    config: PretrainedConfig = field(repr=False)
    generation: GenerationConfig | None = field(repr=False)
    """None: the model names none."""
    tensors: Mapping[str, torch.Tensor] = field(repr=False)
    """By Hugging Face name, in the type asked for; may hold a tied weight twice."""

    def save(self, directory: Path, weights: Mapping[str, torch.Tensor]) -> None:
        """Writes the files that `from_pretrained` reads, with `weights`."""
        directory.mkdir(parents=True, exist_ok=True)
        self.config.save_pretrained(directory)
        if self.generation is not None:
            self.generation.save_pretrained(directory)
        save_file(dict(weights), directory / WEIGHTS, metadata={"format": "pt"})


class FolderTensors(Mapping[str, torch.Tensor]):
    """The tensors of a folder's safetensors, read when they are asked for."""

    def __init__(self, files: list[Path], dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._files: dict[str, Path] = {}
        for file in files:
            with safe_open(file, framework="pt") as opened:
                self._files |= dict.fromkeys(opened.keys(), file)

    def __getitem__(self, name: str) -> torch.Tensor:
        with safe_open(self._files[name], framework="pt") as opened:
            return opened.get_tensor(name).to(self._dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


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
        tensors=FolderTensors(files, getattr(torch, dtype)),
    )


def _loaded(model: str, *, dtype: str, seed: int) -> Source:
    loaded = load(model, dtype=dtype, seed=seed).model
    loaded.config.architectures = [type(loaded).__name__]
    return Source(
        config=loaded.config,
        generation=loaded.generation_config,
        tensors={name: parameter.detach() for name, parameter in loaded.named_parameters()},
    )
