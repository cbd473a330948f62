"""Attention over packs: each answer sees its prompt and itself, computed without a mask over the whole pack.

Registered with transformers as an attention implementation, so it serves every architecture that goes through
that interface; without a plan it is their own scaled dot product attention. Two ways of computing one thing:
`RowPlan` takes a dense row per tree, best for short trees; `BranchPlan` takes prompt and answers one by one,
best where the pairs of tokens that do not see each other outweigh the calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from headrace.services.devices import moved
from headrace.services.scoring.packing import Tree

NAME = "headrace_shared_prefix"

CALL_PAIRS = 4096
"""Pairs of tokens whose attention takes about as long as one more call does; measured on a CPU, width 128."""

UNSUPPORTED = ("softcap", "s_aux", "position_bias")


class Plan(Protocol):
    longest: int
    """Tokens from the start of a prompt to the end of its longest answer."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """[heads, N, width] each to [N, heads, width]."""
        ...


@dataclass(slots=True)
class Attention:
    """A plan on its way through a model's layers, and how many of them took it."""

    plan: Plan
    layers: int = 0


def plan(trees: Sequence[Tree], *, device: torch.device, dtype: torch.dtype) -> Plan:
    """The cheaper plan for these trees; `dtype` is that of the activations."""
    widest = max(tree.tokens for tree in trees)
    dense = len(trees) * widest * widest
    branched = sum(
        tree.prompt**2 + sum(fed * (tree.prompt + fed) for fed in tree.answers) for tree in trees
    ) + CALL_PAIRS * sum(1 + len(tree.answers) for tree in trees)
    chosen = RowPlan if dense <= branched else BranchPlan
    return chosen(trees, device=device, dtype=dtype)


class RowPlan:
    """One row per tree, padded to the longest, under a mask of who sees whom."""

    def __init__(self, trees: Sequence[Tree], *, device: torch.device, dtype: torch.dtype) -> None:
        self.longest = _longest(trees)
        self._rows = len(trees)
        width = max(tree.tokens for tree in trees)
        owners_RT = np.stack([_owners(tree, width) for tree in trees])
        places_RT = np.stack([tree.start + np.arange(width) for tree in trees])
        used_RT = np.arange(width) < np.array([[tree.tokens] for tree in trees])
        self._gather: torch.Tensor | None = None
        if not used_RT.all():
            self._gather = moved(np.where(used_RT, places_RT, 0).ravel(), device)
            self._scatter = moved(np.flatnonzero(used_RT), device)
        if (owners_RT == owners_RT[0]).all():
            owners_RT = owners_RT[:1]
        self._mask = _additive(_sees(moved(owners_RT, device)), dtype)[:, None]

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        out = scaled_dot_product_attention(
            self._to_rows(query),
            self._to_rows(key),
            self._to_rows(value),
            attn_mask=self._mask,
            scale=scaling,
        )
        flat = out.transpose(1, 2).flatten(0, 1)
        return flat if self._gather is None else flat.index_select(0, self._scatter)

    def _to_rows(self, states: torch.Tensor) -> torch.Tensor:
        padded = states if self._gather is None else states.index_select(1, self._gather)
        return padded.unflatten(1, (self._rows, -1)).transpose(0, 1)


class BranchPlan:
    """The prompt by itself, then each answer over its prompt and itself."""

    def __init__(self, trees: Sequence[Tree], *, device: torch.device, dtype: torch.dtype) -> None:
        self.longest = _longest(trees)
        self._trees = trees
        self._prompt = max(tree.prompt for tree in trees)
        answer = max(max(tree.answers) for tree in trees)
        seen = torch.ones(answer, self._prompt + answer, dtype=torch.bool, device=device)
        self._mask = _additive(seen.tril(self._prompt), dtype)

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        parts = [part for tree in self._trees for part in self._attend_tree(tree, query, key, value, scaling)]
        return torch.cat(parts, dim=2)[0].transpose(0, 1)

    def _attend_tree(
        self, tree: Tree, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
    ) -> list[torch.Tensor]:
        def cut(states: torch.Tensor, start: int, length: int) -> torch.Tensor:
            return states[None, :, start : start + length]

        root_query, root_key, root_value = (
            cut(states, tree.start, tree.prompt) for states in (query, key, value)
        )
        parts = [
            scaled_dot_product_attention(root_query, root_key, root_value, is_causal=True, scale=scaling)
        ]
        place = tree.start + tree.prompt
        for fed in filter(None, tree.answers):
            parts.append(
                scaled_dot_product_attention(
                    cut(query, place, fed),
                    torch.cat((root_key, cut(key, place, fed)), dim=2),
                    torch.cat((root_value, cut(value, place, fed)), dim=2),
                    attn_mask=self._mask[:fed, self._prompt - tree.prompt : self._prompt + fed],
                    scale=scaling,
                )
            )
            place += fed
        return parts


def shared_prefix_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    shared_prefix: Attention | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention signature: [1, heads, N, width] each to [1, N, heads, width].

    `shared_prefix` comes from the keyword arguments of the model's call. Raises ValueError for attention that
    the plans do not compute: soft caps, sinks, biases, and windows shorter than the longest sample.
    """
    if shared_prefix is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    _check_options(module, shared_prefix.plan, options)
    shared_prefix.layers += 1
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    return shared_prefix.plan.attend(query[0], key[0], value[0], scaling)[None], None


def register() -> None:
    """Makes the implementation known to transformers under `NAME`; again is the same."""
    AttentionInterface.register(NAME, shared_prefix_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def _check_options(module: torch.nn.Module, chosen: Plan, options: dict[str, Any]) -> None:
    for name in UNSUPPORTED:
        if options.get(name) is not None:
            raise ValueError(
                f"{type(module).__name__} asks for {name}, which shared-prefix attention does not compute; "
                "use a model without it"
            )
    window = options.get("sliding_window")
    if window is not None and window < chosen.longest:
        raise ValueError(
            f"{type(module).__name__} attends over a window of {window} tokens and the longest sample has "
            f"{chosen.longest}; shorten max_new_tokens or the prompts, or use a model without a window"
        )


def _longest(trees: Sequence[Tree]) -> int:
    return max(tree.prompt + max(tree.answers) for tree in trees)


def _owners(tree: Tree, width: int) -> np.ndarray:
    """int64 [width]: 0 for the prompt's tokens, then 1, 2, ... by answer; -1 past the end."""
    owners = np.full(width, -1, dtype=np.int64)
    owners[: tree.tokens] = np.repeat(np.arange(1 + len(tree.answers)), (tree.prompt, *tree.answers))
    return owners


def _sees(owners_RT: torch.Tensor) -> torch.Tensor:
    width = owners_RT.shape[1]
    earlier_TT = torch.ones(width, width, dtype=torch.bool, device=owners_RT.device).tril()
    own_RTT = owners_RT[:, :, None] == owners_RT[:, None, :]
    return (own_RTT | (owners_RT[:, None, :] == 0)) & earlier_TT


def _additive(sees: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(sees.shape, dtype=dtype, device=sees.device).masked_fill(~sees, -torch.inf)
