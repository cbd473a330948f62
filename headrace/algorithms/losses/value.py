"""The critic's loss."""

import torch

from headrace.algorithms.shapes import assert_tokens


def value_clip(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, *, clip: float | None
) -> torch.Tensor:
    """Half the squared error to the return, or that of the value clipped to old +- clip if larger; all [T].

    Clipped as PPO's first implementation does (https://arxiv.org/abs/2005.12729). None: no clip. The factor
    of a half is that of TRL, verl and AReaL.
    """
    assert_tokens(values=values, old_values=old_values, returns=returns)
    error_T = (values - returns).square()
    if clip is None:
        return 0.5 * error_T
    clipped_T = old_values + (values - old_values).clamp(-clip, clip)
    return 0.5 * torch.maximum(error_T, (clipped_T - returns).square())
