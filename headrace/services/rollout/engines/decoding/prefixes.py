"""Prompts shared by the samples of a group: which wait, which are prefilled, who still needs them."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from headrace.services.rollout.engines.decoding.slots import Moves, Sample, compaction


@dataclass(slots=True, kw_only=True, eq=False)
class Prefix:
    """Tokens computed once for all `pending` samples; a carried sample has one of its own."""

    token_ids: np.ndarray
    """int64 [P]."""
    pending: deque[Sample]
    """Samples that have not drawn a token from it yet."""
    live: int = 0
    """Samples that decode behind it."""
    logits: torch.Tensor | None = field(default=None, repr=False)
    """[V] behind the last token, under the engine's present weights; None until prefilled."""


def share(samples: Iterable[Sample]) -> list[Prefix]:
    """One prefix per group, in order of appearance; one per carried sample."""
    shared: dict[tuple[int, bytes], Prefix] = {}
    prefixes: list[Prefix] = []
    for sample in samples:
        request = sample.request
        ids = np.asarray(request.prompt_ids, dtype=np.int64)
        if sample.carried() and request.carry is not None:
            ids = np.concatenate((ids, np.asarray(request.carry["token_ids"], dtype=np.int64)))
            prefixes.append(Prefix(token_ids=ids, pending=deque([sample])))
            continue
        key = (request.group, ids.tobytes())
        if key not in shared:
            shared[key] = Prefix(token_ids=ids, pending=deque())
            prefixes.append(shared[key])
        shared[key].pending.append(sample)
    return prefixes


class PrefixTable:
    """Prefilled prefixes by slot; `0 .. len - 1` are active."""

    def __init__(self) -> None:
        self.active: list[Prefix] = []

    def __len__(self) -> int:
        return len(self.active)

    def lengths(self) -> np.ndarray:
        """int64 [prefixes]."""
        return np.array([len(prefix.token_ids) for prefix in self.active], dtype=np.int64)

    def with_pending(self) -> list[int]:
        return [slot for slot, prefix in enumerate(self.active) if prefix.pending]

    def left(self, slots: np.ndarray) -> None:
        """One live sample less behind each of `slots` (repeats count)."""
        for slot in slots:
            self.active[slot].live -= 1

    def remove_unused(self, of_row: np.ndarray) -> Moves:
        """Drops prefixes that nobody needs, and renumbers `of_row` (int64 [rows]) in place."""
        unused = [s for s, prefix in enumerate(self.active) if not prefix.live and not prefix.pending]
        sources, targets = compaction(np.array(unused, dtype=np.int64), len(self.active))
        renumbered = np.arange(len(self.active))
        renumbered[sources] = targets
        of_row[:] = renumbered[of_row]
        for source, target in zip(sources, targets, strict=True):
            self.active[target] = self.active[source]
        del self.active[len(self.active) - len(unused) :]
        return sources, targets


def places(of_row: np.ndarray, prefixes: int) -> tuple[np.ndarray, np.ndarray]:
    """Lays rows out as [prefixes, members]: `row_at` int64 [prefixes * members], `place_of_row` [rows].

    `members` is the size of the largest group; a place without a row of its own repeats row 0.
    """
    rows = len(of_row)
    counts = np.bincount(of_row, minlength=prefixes)
    members = int(counts.max(initial=1))
    order = np.argsort(of_row, kind="stable")
    rank = np.empty(rows, dtype=np.int64)
    rank[order] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    place_of_row = of_row * members + rank
    row_at = np.zeros(prefixes * members, dtype=np.int64)
    row_at[place_of_row] = np.arange(rows)
    return row_at, place_of_row


def take_for_prefill(waiting: deque[Prefix], free_rows: int, max_tokens: int) -> Sequence[Prefix]:
    """Pops prefixes that each get a row and fit `max_tokens` once padded; at least one."""
    taken: list[Prefix] = []
    widest = rows = 0
    while waiting and rows < free_rows:
        widest = max(widest, len(waiting[0].token_ids))
        if taken and widest * (len(taken) + 1) > max_tokens:
            break
        prefix = waiting.popleft()
        taken.append(prefix)
        rows += len(prefix.pending)
    return taken
