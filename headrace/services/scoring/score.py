"""Scores whole batches without gradient: what scorers and diagnostics need of a model."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from headrace.services.scoring.packing import Pack, pack

TokenScores = Callable[[Pack], torch.Tensor]
"""One number for each answer token of a pack, [T]."""


def score(
    scores: TokenScores,
    prompt_ids: Sequence[np.ndarray],
    response_ids: Sequence[np.ndarray],
    groups: np.ndarray,
    *,
    max_tokens: int,
) -> list[np.ndarray]:
    """Of each answer's tokens, [B] of [length], in the order given.

    At most `max_tokens` tokens pass through the model at once. Raises ValueError as `pack` does.
    """
    found: list[np.ndarray] = [np.zeros(0, dtype=np.float32) for _ in response_ids]
    with torch.inference_mode():
        for packed in pack(prompt_ids, response_ids, groups, max_tokens=max_tokens):
            values_T = scores(packed).cpu().numpy()
            pieces = np.split(values_T, np.cumsum(packed.lengths)[:-1])
            for index, piece in zip(packed.index, pieces, strict=True):
                found[index] = piece
    return found
