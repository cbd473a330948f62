"""A value model that scores packs: a token classifier with one label, read where the next token is due."""

import torch
from transformers import PreTrainedModel

from headrace.services.scoring.model import forward, prepared
from headrace.services.scoring.packing import Pack


class PackedValues:
    """Wraps `model` in place: its attention becomes the shared-prefix one and its dropout is off."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = prepared(model)

    def values(self, pack: Pack) -> torch.Tensor:
        """[T]: what is expected before each answer token, from the prompt and the tokens before it."""
        values_N = forward(self.model, pack)[:, 0]
        return values_N[torch.from_numpy(pack.scored_from).to(values_N.device)].to(
            torch.promote_types(values_N.dtype, torch.float32)
        )
