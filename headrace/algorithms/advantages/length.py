"""What the length of an answer adds to its reward."""

import numpy as np


def overlong_penalty(lengths: np.ndarray, *, max_length: int, cache: int) -> np.ndarray:
    """Added to the reward: 0 up to max_length - cache tokens, down to -1 at max_length, -1 beyond it.

    DAPO (https://arxiv.org/abs/2503.14476), equation 13. `lengths` [B] in tokens. Returns float64 [B].
    Raises ValueError unless 0 < cache <= max_length.
    """
    if not 0 < cache <= max_length:
        raise ValueError(f"cache is {cache} of max_length {max_length}; it must lie between 1 and max_length")
    return np.clip((max_length - cache - lengths) / cache, -1.0, 0.0)
