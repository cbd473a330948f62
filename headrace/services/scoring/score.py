"""Scores whole batches without gradient: what scorers and diagnostics need of a model."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from headrace.services.scoring.packing import Pack, Placed, pack

TokenScores = Callable[[Pack], torch.Tensor]
"""One number for each answer token of a pack, [T]."""

Ragged = list[np.ndarray]
"""One array per sample, each [length]."""


def score(
    scores: TokenScores,
    prompt_ids: Sequence[np.ndarray],
    response_ids: Sequence[np.ndarray],
    groups: np.ndarray,
    *,
    max_tokens: int,
) -> Ragged:
    """Of each answer's tokens, [B] of [length], in the order given.

    At most `max_tokens` tokens pass through the model at once. Raises ValueError as `pack` does.
    """
    packs = pack(prompt_ids, response_ids, groups, max_tokens=max_tokens)
    with torch.inference_mode():
        return unpacked(packs, [scores(packed) for packed in packs], len(response_ids))


def unpacked(packs: Sequence[Placed], parts: Sequence[torch.Tensor], size: int) -> Ragged:
    """[T] of each pack as one array per sample of the batch; empty where a sample is in no pack."""
    found: Ragged = [np.zeros(0, dtype=np.float32) for _ in range(size)]
    for packed, part in zip(packs, parts, strict=True):
        pieces = np.split(part.cpu().numpy(), np.cumsum(packed.lengths)[:-1])
        for index, piece in zip(packed.index, pieces, strict=True):
            found[index] = piece
    return found
