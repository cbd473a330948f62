"""Samples as rows of padded tokens, shared out over the data-parallel ranks.

A row is a prompt and its answer without the last token, padded on the right: what stands behind a token
never reaches it, so that padding changes nothing. Rows and shares follow from lengths alone, the same on
every rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.services.trainer.ranks.shares import owners


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """R rows of width S, and the T answer tokens that they score; arrays are int64."""

    input_ids: np.ndarray = field(repr=False)
    """[R, S]; 0 where padded."""
    scored_from: np.ndarray = field(repr=False)
    """[T], of each answer token the place that predicts it, counted along S x R."""
    targets: np.ndarray = field(repr=False)
    """[T], the answer tokens, row after row."""
    lengths: np.ndarray
    """[R], answer tokens of each row; they sum to T."""
    index: np.ndarray
    """[R], where each sample stands in the batch."""


def shared_out(
    prompt_ids: Sequence[np.ndarray],
    response_ids: Sequence[np.ndarray],
    groups: np.ndarray,
    chosen: np.ndarray,
    *,
    ranks: int,
    max_tokens: int,
) -> list[list[MicroBatch]]:
    """The micro-batches of each of the data-parallel ranks, of the samples at `chosen`."""
    fed = fed_tokens(prompt_ids, response_ids)[chosen]
    return [
        micro_batches(prompt_ids, response_ids, chosen[own], max_tokens=max_tokens)
        for own in shares(fed, groups[chosen], ranks)
    ]


def shares(fed: np.ndarray, groups: np.ndarray, ranks: int) -> list[np.ndarray]:
    """Places of the samples of each rank: whole groups, as even in tokens as they come.

    `fed` are the tokens of each sample, its prompt's among them, int64 [B]; `groups` int64 [B].
    """
    names, inverse = np.unique(groups, return_inverse=True)
    tokens = np.bincount(inverse, weights=fed, minlength=len(names)).astype(np.int64)
    owner = owners(tokens, ranks)
    return [np.flatnonzero(owner[inverse] == rank) for rank in range(ranks)]


def fed_tokens(prompt_ids: Sequence[np.ndarray], response_ids: Sequence[np.ndarray]) -> np.ndarray:
    """int64 [B], tokens that the model is fed of each sample; 0 for an empty answer."""
    pairs = zip(prompt_ids, response_ids, strict=True)
    return np.array([len(p) + len(r) - 1 if len(r) else 0 for p, r in pairs], dtype=np.int64)


def micro_batches(
    prompt_ids: Sequence[np.ndarray],
    response_ids: Sequence[np.ndarray],
    chosen: np.ndarray,
    *,
    max_tokens: int,
) -> list[MicroBatch]:
    """The samples at `chosen`, in rows that with their padding have at most `max_tokens`, longest first.

    A sample beyond it stands alone; empty answers are left out. Raises ValueError for an empty prompt.
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}; a micro-batch holds at least one token")
    fed = fed_tokens(prompt_ids, response_ids)
    used = np.array([place for place in chosen if len(response_ids[place])], dtype=np.int64)
    for place in used:
        if len(prompt_ids[place]) == 0:
            raise ValueError(
                f"the prompt of sample {place} is empty; nothing predicts its first answer token"
            )
    rows: list[list[int]] = []
    for place in used[np.argsort(-fed[used], kind="stable")]:
        if not rows or (len(rows[-1]) + 1) * fed[rows[-1][0]] > max_tokens:
            rows.append([])
        rows[-1].append(int(place))
    return [_lay_out(row, prompt_ids, response_ids, int(fed[row[0]])) for row in rows]


def _lay_out(
    places: list[int], prompt_ids: Sequence[np.ndarray], response_ids: Sequence[np.ndarray], width: int
) -> MicroBatch:
    input_ids = np.zeros((len(places), width), dtype=np.int64)
    scored: list[np.ndarray] = []
    for row, place in enumerate(places):
        prompt, response = prompt_ids[place], response_ids[place]
        input_ids[row, : len(prompt)] = prompt
        input_ids[row, len(prompt) : len(prompt) + len(response) - 1] = response[:-1]
        scored.append((len(prompt) - 1 + np.arange(len(response))) * len(places) + row)
    return MicroBatch(
        input_ids=input_ids,
        scored_from=np.concatenate(scored),
        targets=np.concatenate([response_ids[place] for place in places]).astype(np.int64),
        lengths=np.array([len(response_ids[place]) for place in places], dtype=np.int64),
        index=np.array(places),
    )
