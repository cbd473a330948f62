"""Which rank trains which groups of a batch: whole groups, as even in tokens as they come.

A function of the batch alone, so that every rank knows the share of every other without asking.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from headrace.services.trainer.ranks.group import Ranks


def shares(
    prompt_ids: Sequence[np.ndarray], response_ids: Sequence[np.ndarray], groups: np.ndarray, ranks: int
) -> list[np.ndarray]:
    """For each rank the places of its samples in the batch, ascending, int64; some may be empty.

    The largest group goes first, each to the rank that has the fewest tokens so far. A prompt counts once.
    """
    numbers, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    answered = np.array([len(ids) for ids in response_ids], dtype=np.int64)
    tokens = np.bincount(inverse, weights=answered, minlength=len(numbers)).astype(np.int64)
    tokens += np.array([len(prompt_ids[place]) for place in first], dtype=np.int64)
    owner = owners(tokens, ranks)
    return [np.flatnonzero(owner[inverse] == rank) for rank in range(ranks)]


def owners(tokens: np.ndarray, ranks: int) -> np.ndarray:
    """The rank of each group, int64, of the `tokens` of each: the largest goes first, each to the rank that
    has the fewest so far."""
    filled, owner = [0] * ranks, np.zeros(len(tokens), dtype=np.int64)
    for group in np.argsort(-tokens, kind="stable").tolist():
        rank = filled.index(min(filled))
        owner[group] = rank
        filled[rank] += int(tokens[group])
    return owner


def spread(
    columns: Mapping[str, Sequence[np.ndarray]],
    own: np.ndarray,
    response_ids: Sequence[np.ndarray],
    ranks: Ranks,
) -> dict[str, list[np.ndarray]]:
    """What each rank has found of its share, in every rank for the whole batch: [B] of [length].

    `columns`: one array for each place in `own`, as long as its answer; of a float type of at most 64 bits.
    """
    if ranks.size == 1:
        return {name: list(column) for name, column in columns.items()}
    ends = np.cumsum([len(ids) for ids in response_ids])
    whole: dict[str, list[np.ndarray]] = {}
    for name, column in columns.items():
        tokens = torch.zeros(int(ends[-1]), dtype=torch.float64)
        for place, values in zip(own.tolist(), column, strict=True):
            tokens[int(ends[place]) - len(values) : int(ends[place])] = torch.from_numpy(values)
        ranks.add_up([tokens])
        whole[name] = np.split(tokens.numpy(), ends[:-1])
    return whole
