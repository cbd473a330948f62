"""Cascade attention: queries of a group read their shared prefix once, then each its own suffix.

The two parts are softmaxes over disjoint keys, merged exactly by their log-sum-exp. Grouped query heads
stand beside each other as queries of one key head, so keys and values are never repeated.
"""

from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from headrace.services.rollout.engines.decoding.kv import SlotCache

NAME = "headrace_cascade"

_UNSUPPORTED = ("sliding_window", "attn_logit_softcapping", "alibi", "position_embedding_type")


def can_cascade(model: PreTrainedModel) -> bool:
    """Whether the model hands its forward's keywords to a pluggable, plain softmax attention."""
    if not getattr(model, "_supports_attention_backend", False):
        return False
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    return kinds <= {"full_attention"} and not any(getattr(config, name, None) for name in _UNSUPPORTED)


def install(model: PreTrainedModel) -> None:
    """Makes `model` use cascade attention in decode steps; elsewhere it stays PyTorch's sdpa."""
    AttentionInterface.register(NAME, cascade_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)


def cascade_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    cascade: SlotCache | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of transformers' interface.

    `query`: [rows, query heads, 1, dim]; `key`, `value`: the suffixes [rows, key heads, width, dim];
    `attention_mask`: [rows, 1, 1, width], added to scores. Returns [rows, 1, query heads, dim].
    """
    if cascade is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer = cascade.slots[int(module.layer_idx)]  # pyright: ignore[reportArgumentType]
    prefix_keys, prefix_values = layer.prefix_views()
    layout = cascade.layout
    rows, heads, key_heads = query.shape[0], query.shape[1], key.shape[1]
    own = query.reshape(rows, key_heads, heads // key_heads, -1)
    shared = _gather(own, layout.row_at, layout.prefixes)
    own_part, own_lse = attend(own, key, value, attention_mask, scale)
    shared_part, shared_lse = attend(shared, prefix_keys, prefix_values, layout.prefix_mask, scale)
    shared_part = _scatter(shared_part, layout.place_of_row, own_part.shape)
    shared_lse = _scatter(shared_lse.unsqueeze(-1), layout.place_of_row, (*own_lse.shape, 1))
    weight = torch.sigmoid(shared_lse - own_lse.unsqueeze(-1)).to(own_part.dtype)
    merged = torch.lerp(own_part, shared_part, weight)
    return merged.reshape(rows, 1, heads, -1), None


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(query key^T scale + mask) value, and the log-sum-exp of the scores [batch, heads, queries]."""
    if query.device.type == "cpu" and query.shape[-1] == value.shape[-1]:
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return fused(query, key, value, 0.0, False, attn_mask=mask, scale=scale)
    return attend_plainly(query, key, value, mask, scale)


def attend_plainly(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend` out of plain products, for devices and shapes that the fused kernel does not take; of at least
    float32, as the kernels are within."""
    precise = torch.promote_types(query.dtype, torch.float32)
    scores = torch.matmul(query.to(precise) * scale, key.to(precise).transpose(-1, -2))
    if mask is not None:
        scores = scores + mask
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - lse.unsqueeze(-1))
    return torch.matmul(weights, value.to(precise)).to(query.dtype), lse


def _gather(own: torch.Tensor, row_at: torch.Tensor, prefixes: int) -> torch.Tensor:
    """[rows, key heads, repeats, dim] to [prefixes, key heads, members * repeats, dim]."""
    _, key_heads, repeats, dim = own.shape
    members = row_at.shape[0] // prefixes
    padded = own[row_at].view(prefixes, members, key_heads, repeats, dim)
    return padded.transpose(1, 2).reshape(prefixes, key_heads, members * repeats, dim)


def _scatter(
    part: torch.Tensor, place_of_row: torch.Tensor, shape: torch.Size | tuple[int, ...]
) -> torch.Tensor:
    """The way back of `_gather`, to `shape` [rows, key heads, repeats, dim]."""
    prefixes, key_heads, queries, dim = part.shape
    repeats = shape[2]
    places = part.view(prefixes, key_heads, queries // repeats, repeats, dim).transpose(1, 2)
    return places.reshape(-1, key_heads, repeats, dim)[place_of_row]
