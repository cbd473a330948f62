"""A causal language model that scores packs; the one forward pass of trainer and reference.

Only the positions that predict an answer token pass through the output layer: no logits of prompts exist.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from headrace.algorithms.base import PolicyOutput
from headrace.services.devices import moved
from headrace.services.scoring.attention import NAME, Attention, plan, register
from headrace.services.scoring.outputs import token_outputs
from headrace.services.scoring.packing import Pack


class PackedModel:
    """Wraps `model` in place: its attention becomes the shared-prefix one and its dropout is off."""

    def __init__(self, model: PreTrainedModel, *, temperature: float) -> None:
        """`temperature` is that of the sampling. Raises ValueError where it is not above 0."""
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; log-probabilities need one above 0")
        self.model = prepared(model)
        self.own: Mapping[str, torch.nn.Parameter] = {}
        """Parameters beside the model's; none."""
        self._temperature = temperature

    def logprobs(self, pack: Pack) -> torch.Tensor:
        """[T]: log softmax(logits / temperature) of each answer token; at least float32."""
        logits_TV, targets_T = self._logits(pack)
        return token_logprobs(logits_TV, targets_T, temperature=self._temperature)

    def outputs(self, pack: Pack, names: Sequence[str]) -> PolicyOutput:
        """Of each answer token, what `token_outputs` makes of its logits. Raises ValueError as it does."""
        logits_TV, targets_T = self._logits(pack)
        return token_outputs(logits_TV, targets_T, temperature=self._temperature, names=names)

    def _logits(self, pack: Pack) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [T, V] that predict the answer tokens, and those tokens [T]."""
        device = self.model.device
        kept = moved(pack.scored_from, device)
        logits_TV = forward(self.model, pack, logits_to_keep=kept)
        return logits_TV, moved(pack.targets, device)


def prepared(model: PreTrainedModel) -> PreTrainedModel:
    """`model` itself, its attention the shared-prefix one and its dropout off, as `forward` asks."""
    register()
    model.set_attn_implementation(NAME)
    return model.eval()


def forward(model: PreTrainedModel, pack: Pack, **options: Any) -> torch.Tensor:
    """Logits [N, ...] of a pack's tokens, or of those that `options` keep.

    Raises ValueError where a layer's attention took no notice of the pack.
    """
    device, size = model.device, len(pack.input_ids)
    attention = Attention(plan(pack.trees, device=device, dtype=model.dtype))
    logits_N = model(
        input_ids=_row(pack.input_ids, device),
        position_ids=_row(pack.position_ids, device),
        attention_mask=torch.zeros((), device=device).expand(1, 1, size, size),
        shared_prefix=attention,
        use_cache=False,
        **options,
    ).logits[0]
    expected = model.config.get_text_config().num_hidden_layers
    if attention.layers != expected:
        raise ValueError(
            f"{attention.layers} of the {expected} layers of {type(model).__name__} went through the "
            "attention interface of transformers; packed scoring needs all: use a model that supports it"
        )
    return logits_N


def token_logprobs(logits: torch.Tensor, targets: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """log softmax(logits / temperature) at `targets`; logits [T, V], targets int64 [T], result [T]."""
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    tempered = precise if temperature == 1.0 else precise / temperature
    return -cross_entropy(tempered, targets, reduction="none")


def _row(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return moved(values, device)[None]
