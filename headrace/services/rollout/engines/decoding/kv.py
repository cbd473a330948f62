"""Keys and values of the sequences being decoded: a shared prefix per group, a suffix per sample.

Invariant: active prefixes and samples occupy the first slots, so the model sees plain views. Buffers
start as zeros and hold only finite numbers: a masked place never turns a sum into NaN.
"""

from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which rows share which prefix; made anew when rows join or leave."""

    rows: int
    prefixes: int
    prefix_tokens: int
    """Length of the longest active prefix."""
    prefix_of_row: torch.Tensor
    """int64 [rows]."""
    row_at: torch.Tensor
    """int64 [prefixes * members]: the row at each place of a prefix; empty places repeat some row."""
    place_of_row: torch.Tensor
    """int64 [rows]: the inverse of `row_at`."""
    prefix_mask: torch.Tensor
    """[prefixes, 1, 1, prefix_tokens], added to scores."""


class Bank:
    """Keys and values by slot, [slots, heads, tokens, dim] each, grown by doubling up to the limits."""

    __slots__ = ("keys", "max_slots", "max_tokens", "values")

    def __init__(self, max_slots: int, max_tokens: int) -> None:
        self.max_slots = max_slots
        self.max_tokens = max_tokens
        self.clear()

    def clear(self) -> None:
        """Lets go of all slots and of their memory."""
        self.keys = torch.empty(0)
        self.values = torch.empty(0)

    def reserve(self, slots: int, tokens: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Makes room for `slots` x `tokens` of the heads, dim and type of `keys` and `values`."""
        held_slots, held_tokens = (self.keys.shape[0], self.keys.shape[2]) if self.keys.dim() == 4 else (0, 0)
        if slots <= held_slots and tokens <= held_tokens:
            return
        slots = _grown(slots, held_slots, self.max_slots)
        tokens = _grown(tokens, held_tokens, self.max_tokens)
        self.keys = _enlarged(self.keys, slots, tokens, keys)
        self.values = _enlarged(self.values, slots, tokens, values)

    def move(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copies slots `sources` (int64 [k]) onto `targets`."""
        self.keys[targets] = self.keys[sources]
        self.values[targets] = self.values[sources]


def _grown(need: int, held: int, limit: int) -> int:
    return held if need <= held else max(need, min(2 * held, limit))


def _enlarged(old: torch.Tensor, slots: int, tokens: int, like: torch.Tensor) -> torch.Tensor:
    new = like.new_zeros(slots, like.shape[1], tokens, like.shape[3])
    if old.dim() == 4:
        new[: old.shape[0], :, : old.shape[2]] = old
    return new


class SlotLayer(CacheLayerMixin):
    """One layer's banks. A model's forward calls `update` with the new token of every active row."""

    def __init__(self, cache: "SlotCache") -> None:
        super().__init__()
        self.cache = cache
        self.prefix = Bank(cache.max_rows + 1, cache.max_tokens)
        self.suffix = Bank(cache.max_rows, cache.max_new_tokens)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.suffix.reserve(self.cache.layout.rows, self.cache.width, key_states, value_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores [rows, heads, 1, dim] behind each row's suffix; returns what attention is to see.

        That is the suffixes alone under cascade attention, else each row's prefix joined with its suffix.
        """
        cache = self.cache
        self.lazy_initialization(key_states, value_states)
        self.suffix.keys[cache.rows, :, cache.ends] = key_states[:, :, 0]
        self.suffix.values[cache.rows, :, cache.ends] = value_states[:, :, 0]
        keys = self.suffix.keys[: cache.layout.rows, :, : cache.width]
        values = self.suffix.values[: cache.layout.rows, :, : cache.width]
        if cache.cascade:
            return keys, values
        prefix_keys, prefix_values = self.prefix_views()
        rows = cache.layout.prefix_of_row
        return torch.cat((prefix_keys[rows], keys), 2), torch.cat((prefix_values[rows], values), 2)

    def prefix_views(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the active prefixes: [prefixes, heads, prefix_tokens, dim]."""
        layout = self.cache.layout
        prefixes, tokens = layout.prefixes, layout.prefix_tokens
        return self.prefix.keys[:prefixes, :, :tokens], self.prefix.values[:prefixes, :, :tokens]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.layout.prefix_tokens + self.cache.width, 0

    def get_seq_length(self) -> int:
        return self.cache.layout.prefix_tokens + self.cache.width - 1

    def get_max_length(self) -> int:
        return -1


class SlotCache(Cache):
    """The cache of a decode step: `begin` says where the new tokens go, then the model's forward runs."""

    layout: Layout
    rows: torch.Tensor
    ends: torch.Tensor
    width: int

    def __init__(
        self, layers: int, *, max_rows: int, max_tokens: int, max_new_tokens: int, cascade: bool
    ) -> None:
        self.max_rows = max_rows
        self.max_tokens = max_tokens
        self.max_new_tokens = max_new_tokens
        self.cascade = cascade
        self.slots = [SlotLayer(self) for _ in range(layers)]
        super().__init__(layers=[*self.slots])

    def begin(self, layout: Layout, ends: torch.Tensor, width: int) -> None:
        """`ends`: int64 [rows], tokens already in each suffix; `width`: the longest of them, plus one."""
        self.layout = layout
        self.rows = torch.arange(layout.rows, device=ends.device)
        self.ends = ends
        self.width = width

    def clear(self) -> None:
        """Back to nothing held, so that the next step's buffers are as those of a new cache."""
        for slot in self.slots:
            slot.prefix.clear()
            slot.suffix.clear()

    def store_prefixes(self, first: int, lengths: list[int], prefilled: Cache) -> None:
        """Copies the rows of a prefill (padded on the right) into prefix slots `first`, `first` + 1, ..."""
        widest = max(lengths)
        for slot, layer in zip(self.slots, prefilled.layers, strict=True):
            if not isinstance(layer, DynamicLayer) or layer.keys is None or layer.values is None:
                raise TypeError(
                    f"the model keeps {type(layer).__name__} in its cache; the torch engine decodes models "
                    "whose every layer caches keys and values; use another engine for this model"
                )
            last = first + len(lengths)
            slot.prefix.reserve(last, widest, layer.keys, layer.values)
            slot.prefix.keys[first:last, :, :widest] = layer.keys
            slot.prefix.values[first:last, :, :widest] = layer.values

    @torch.inference_mode()
    def move_prefixes(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        for slot in self.slots:
            slot.prefix.move(sources, targets)

    @torch.inference_mode()
    def move_rows(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        for slot in self.slots:
            slot.suffix.move(sources, targets)
