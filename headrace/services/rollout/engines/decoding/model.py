"""The forward passes of a causal LM: a prefill of prompts, and a decode step on the slot cache.

Only what transformers promises of every causal LM is used: ids, positions, a 4D mask and a cache.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from headrace.services.devices import moved
from headrace.services.rollout.engines.decoding import attention
from headrace.services.rollout.engines.decoding.kv import Layout, SlotCache


class DecodingModel:
    """A model with its slot cache of at most `max_rows` samples of `max_new_tokens`."""

    def __init__(self, model: PreTrainedModel, *, max_rows: int, max_new_tokens: int) -> None:
        self.model = model.eval()
        self.config = model.config.get_text_config()
        parameter = next(model.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self.vocabulary = int(self.config.vocab_size)
        self.max_tokens = int(getattr(self.config, "max_position_embeddings", None) or 1 << 20)
        self.cascade = attention.can_cascade(model)
        if self.cascade:
            attention.install(model)
        self.cache = SlotCache(
            self.config.num_hidden_layers,
            max_rows=max_rows,
            max_tokens=self.max_tokens,
            max_new_tokens=max_new_tokens,
            cascade=self.cascade,
        )
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._lowest = torch.finfo(self.dtype).min

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        return moved(array, self.device)

    def prefill(self, prompts: Sequence[np.ndarray], first: int) -> torch.Tensor:
        """Fills prefix slots `first`, ... ; returns the logits [prompts, V] behind each last token.

        Prompts stand at the left: causal attention never sees the padding behind them.
        """
        lengths = [len(prompt) for prompt in prompts]
        ids = np.zeros((len(prompts), max(lengths)), dtype=np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = prompt
        positions = torch.arange(ids.shape[1], device=self.device).expand(len(prompts), -1)
        last, which = np.unique(np.array(lengths) - 1, return_inverse=True)
        cache = DynamicCache()
        logits = self._forward(
            self.tensor(ids), positions, None, cache, self.tensor(last) if self._keeps_logits else None
        )
        self.cache.store_prefixes(first, lengths, cache)
        rows = torch.arange(len(prompts), device=self.device)
        return logits[rows, self.tensor(which if self._keeps_logits else last[which])]

    def decode(self, layout: Layout, ids: np.ndarray, prefix: np.ndarray, suffix: np.ndarray) -> torch.Tensor:
        """A token per row: `ids` behind `prefix` + `suffix` tokens (int [rows]); returns logits [rows, V]."""
        ends = self.tensor(suffix)
        self.cache.begin(layout, ends, int(suffix.max()) + 1)
        positions = self.tensor(prefix + suffix).unsqueeze(1)
        mask = self._mask(layout, positions, self.tensor(prefix))
        logits = self._forward(
            self.tensor(ids.astype(np.int64)).unsqueeze(1), positions, mask, self.cache,
            1 if self._keeps_logits else None,
        )  # fmt: skip
        return logits[:, -1]

    def prefix_mask(self, lengths: np.ndarray) -> torch.Tensor:
        """[prefixes, 1, 1, longest]: 0 on a prefix's own tokens, the lowest number behind them."""
        seen = np.arange(lengths.max())[None, :] < lengths[:, None]
        return self._additive(self.tensor(seen))[:, None, None, :]

    def _mask(self, layout: Layout, positions: torch.Tensor, prefix: torch.Tensor) -> Any:
        """What a step's attention mask is to be: of suffixes alone, or of prefixes joined with them."""
        places = torch.arange(self.cache.width, device=self.device)
        suffix = self._additive(places <= self.cache.ends.unsqueeze(1))[:, None, None, :]
        if self.cascade:
            return suffix
        full = torch.cat((layout.prefix_mask[layout.prefix_of_row], suffix), dim=-1)
        window = getattr(self.config, "sliding_window", None)
        if not window:
            return full
        shared = torch.arange(layout.prefix_tokens, device=self.device).expand(layout.rows, -1)
        key_positions = torch.cat((shared, prefix.unsqueeze(1) + places), dim=1)
        near = self._additive(positions - key_positions < window)[:, None, None, :]
        windowed = torch.minimum(full, near)
        if getattr(self.config, "layer_types", None) is None:
            return windowed
        return {"full_attention": full, "sliding_attention": windowed}

    def _additive(self, seen: torch.Tensor) -> torch.Tensor:
        return torch.zeros(seen.shape, dtype=self.dtype, device=self.device).masked_fill_(~seen, self._lowest)

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: Any, cache: Any, keep: Any
    ) -> torch.Tensor:
        extra: dict[str, Any] = {} if keep is None else {"logits_to_keep": keep}
        if self.cascade and cache is self.cache:
            extra["cascade"] = self.cache
        output = self.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
            **extra,
        )
        return output.logits
