"""Summed gradients made ready for the optimizer: divided once, looked at, clipped.

Invariant: what is not finite never reaches the optimizer, and every rank comes to the same decision.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import torch
from torch.nn import Parameter

from headrace.services.trainer.backend import NonFiniteGradientError
from headrace.services.trainer.sharded import local, total_norm, whole

SMALLEST = 1e-6
"""Added to the norm that is divided by, as torch's own clipping does."""


def scale(parameters: Mapping[str, Parameter], *, step: int, count: float, max_norm: float) -> float:
    """Divides by `count` and clips the global norm; returns the norm between the two.

    Raises NonFiniteGradientError naming the step and parameters.
    """
    trained = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    for gradient in trained.values():
        local(gradient).div_(count)
    norm = total_norm(list(trained.values()))
    if not torch.isfinite(norm):
        odd = [name for name, gradient in trained.items() if not torch.isfinite(whole(gradient)).all()]
        refuse_non_finite(step, norm.item(), odd)
    clip([local(gradient) for gradient in trained.values()], norm, max_norm)
    return norm.item()


def refuse_non_finite(step: int, norm: float, odd: Sequence[str]) -> NoReturn:
    """Raises NonFiniteGradientError; `odd` are the parameters of which the gradient is not finite."""
    raise NonFiniteGradientError(
        f"step {step}: the gradient norm is {norm}, not finite in {len(odd)} parameters "
        f"({', '.join(odd[:3])}); the weights are unchanged: check the step's rewards and "
        "log-probabilities, or lower the learning rate"
    )


def clip(gradients: Sequence[torch.Tensor], norm: torch.Tensor, max_norm: float) -> None:
    """Scales them down, in place, where `norm` is above `max_norm`."""
    factor = (max_norm / (norm + SMALLEST)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(device=gradient.device, dtype=gradient.dtype))
