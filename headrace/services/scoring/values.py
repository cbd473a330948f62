"""A value model that scores packs: a token classifier with one label, read where the next token is due."""

from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedModel

from headrace.algorithms.base import PolicyOutput
from headrace.services.devices import moved
from headrace.services.scoring.model import forward, prepared
from headrace.services.scoring.packing import Pack


class PackedValues:
    """Wraps `model` in place: its attention becomes the shared-prefix one and its dropout is off."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = prepared(model)
        self.own: Mapping[str, torch.nn.Parameter] = {}

    def values(self, pack: Pack) -> torch.Tensor:
        """[T]: what is expected before each answer token, from the prompt and the tokens before it."""
        values_N = forward(self.model, pack)[:, 0]
        return values_N[moved(pack.scored_from, values_N.device)].to(
            torch.promote_types(values_N.dtype, torch.float32)
        )

    def logprobs(self, pack: Pack) -> torch.Tensor:
        """[T], NaN: a value model has none."""
        return torch.full((len(pack.targets),), torch.nan, device=self.model.device)

    def outputs(self, pack: Pack, names: Sequence[str]) -> PolicyOutput:
        """The values, with a gradient; log-probabilities are NaN. Raises ValueError for any other name."""
        if odd := [name for name in names if name != "values"]:
            raise ValueError(
                f"the loss asks for {odd[0]!r}, and a value model gives values alone; train a language model"
            )
        values_T = self.values(pack)
        return PolicyOutput(logprobs=torch.full_like(values_T, torch.nan), values=values_T)
