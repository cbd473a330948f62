"""What is known of each sample being decoded, by slot: NumPy arrays, so that a step has no loop over rows.

Invariant: slots `0 .. rows - 1` are active; one that leaves is filled by one from the end, and the caller
is told so that it moves keys and values alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.services.rollout.engines.base import Completion, FinishReason, Request
from headrace.services.rollout.engines.decoding.streams import stream_keys

Moves = tuple[np.ndarray, np.ndarray]
"""Slots to copy from, and the slots to copy them to; int64 [k] each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """A request on its way through the engine; `owner` is whoever waits for it."""

    request: Request
    owner: object

    def carried(self) -> int:
        """Tokens that an interrupted generation left."""
        return 0 if self.request.carry is None else len(self.request.carry["token_ids"])


def compaction(leaving: np.ndarray, rows: int) -> Moves:
    """The moves that keep the active slots first when `leaving` (int [k], distinct, below `rows`) go."""
    left = rows - len(leaving)
    stays = np.ones(rows, dtype=bool)
    stays[leaving] = False
    return left + np.flatnonzero(stays[left:]), np.flatnonzero(~stays[:left])


class SlotTable:
    """At most `slots` samples, each with up to `max_new_tokens` tokens."""

    def __init__(self, slots: int, max_new_tokens: int, logprob_dtype: type[np.floating]) -> None:
        self.rows = 0
        self.samples = np.empty(slots, dtype=object)
        self.keys = np.zeros(slots, dtype=np.uint64)
        self.prefix = np.zeros(slots, dtype=np.int64)
        """Slot of the row's prefix."""
        self.prefix_tokens = np.zeros(slots, dtype=np.int64)
        self.suffix_tokens = np.zeros(slots, dtype=np.int64)
        """Tokens whose keys and values are in the row's suffix."""
        self.drawn = np.zeros(slots, dtype=np.int64)
        """Tokens of the answer so far, carried ones included."""
        self.most = np.zeros(slots, dtype=np.int64)
        """Tokens of the row's longest answer."""
        self.token_ids = np.zeros((slots, max_new_tokens), dtype=np.int32)
        self.logprobs = np.zeros((slots, max_new_tokens), dtype=logprob_dtype)
        self.versions = np.zeros((slots, max_new_tokens), dtype=np.int32)
        self._by_slot = (
            self.samples, self.keys, self.prefix, self.prefix_tokens, self.suffix_tokens, self.drawn,
            self.most, self.token_ids, self.logprobs, self.versions,
        )  # fmt: skip

    def add(self, samples: Sequence[Sample], prefix: np.ndarray, prefix_tokens: np.ndarray) -> slice:
        """Fills the next slots; `prefix`, `prefix_tokens`: int64 [k]. Returns the slots filled."""
        new = slice(self.rows, self.rows + len(samples))
        self.samples[new] = samples
        self.keys[new] = stream_keys([sample.request.seed for sample in samples])
        self.prefix[new] = prefix
        self.prefix_tokens[new] = prefix_tokens
        self.suffix_tokens[new] = 0
        self.drawn[new] = [sample.carried() for sample in samples]
        longest = self.token_ids.shape[1]
        self.most[new] = [sample.request.most(longest) for sample in samples]
        for slot, sample in enumerate(samples, start=self.rows):
            if carry := sample.request.carry:
                count = sample.carried()
                self.token_ids[slot, :count] = carry["token_ids"]
                self.logprobs[slot, :count] = carry["logprobs"]
                self.versions[slot, :count] = carry["versions"]
        self.rows = new.stop
        return new

    def append(self, slots: slice, ids: np.ndarray, logprobs: np.ndarray, version: int) -> None:
        """Adds one token to each of `slots`; `ids`, `logprobs`: [k]."""
        rows = np.arange(slots.start, slots.stop)
        places = self.drawn[slots]
        self.token_ids[rows, places] = ids
        self.logprobs[rows, places] = logprobs
        self.versions[rows, places] = version
        self.drawn[slots] += 1

    def last_ids(self) -> np.ndarray:
        """int32 [rows]: the newest token of each active row."""
        return self.token_ids[np.arange(self.rows), self.drawn[: self.rows] - 1]

    def interrupted(self, slot: int) -> Sample:
        """The sample of a slot as one that carries the tokens it has."""
        sample: Sample = self.samples[slot]
        count = self.drawn[slot]
        carry = {
            "token_ids": self.token_ids[slot, :count].copy(),
            "logprobs": self.logprobs[slot, :count].copy(),
            "versions": self.versions[slot, :count].copy(),
        }
        return replace(sample, request=replace(sample.request, carry=carry))

    def completion(self, slot: int, reason: FinishReason) -> Completion:
        count = self.drawn[slot]
        return Completion(
            uid=self.samples[slot].request.uid,
            token_ids=self.token_ids[slot, :count].copy(),
            logprobs=self.logprobs[slot, :count].copy(),
            versions=self.versions[slot, :count].copy(),
            finish_reason=reason,
        )

    def remove(self, leaving: np.ndarray) -> Moves:
        """Frees slots `leaving` (int [k], distinct) and compacts the rest."""
        sources, targets = compaction(leaving, self.rows)
        for array in self._by_slot:
            array[targets] = array[sources]
        self.rows -= len(leaving)
        self.samples[self.rows : self.rows + len(leaving)] = None
        return sources, targets
