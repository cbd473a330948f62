"""What weights and requests a served model takes, known without loading it a second time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from headrace.services.models import ONE_AT_A_TIME
from headrace.services.models.in_place import check_weights
from headrace.services.models.lora import attach
from headrace.services.options import LoraOptions


class ModelShape:
    """A model of the Hugging Face class without its numbers: names, shapes, types and ties."""

    def __init__(
        self, folder: Path, *, dtype: str, longest: int | None, lora: LoraOptions | None = None
    ) -> None:
        """`longest`: tokens of a prompt and its answer together; None: as many as the model has positions.
        `lora`: of a policy whose adapters alone are published, which are then what `check` asks for."""
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        with ONE_AT_A_TIME, torch.device("meta"):
            self._model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
        text = config.get_text_config()
        positions = int(getattr(text, "max_position_embeddings", None) or 1 << 20)
        self.vocabulary = int(text.vocab_size)
        self.longest = positions if longest is None else longest
        firsts: dict[int, str] = {}
        held = self._model.state_dict(keep_vars=True)
        self._first_name = {name: firsts.setdefault(id(tensor), name) for name, tensor in held.items()}
        if lora is not None:
            attach(self._model, lora, seed=0)

    def check(self, weights: Mapping[str, Any]) -> None:
        """Raises ValueError naming what is missing, unexpected or misshapen; of tied names one is enough."""
        check_weights(self._model, weights)

    def named(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """vLLM reads a tied tensor under the first of its names alone, and leaves out the others."""
        return {self._first_name[name]: tensor for name, tensor in weights.items()}
