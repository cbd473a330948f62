"""Makes a float64 model compute in float64 throughout.

The root-mean-square norms of transformers compute in float32 whatever the weights are, which leaves a float64
model with the rounding of float32; optimizers then amplify it. Names and weights stay as they were.
"""

import torch
from torch import nn

PROBE_TOLERANCE = 1e-5


def full_precision(model: nn.Module) -> None:
    """Replaces norms that round to float32, in place.

    Raises ValueError for a norm that computes something else than a root-mean-square norm.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__.endswith("RMSNorm") and not isinstance(child, nn.RMSNorm):
                setattr(parent, name, _exact(child))


def _exact(norm: nn.Module) -> nn.RMSNorm:
    weight = norm.get_parameter("weight")
    eps = getattr(norm, "variance_epsilon", None) or getattr(norm, "eps", None)
    exact = nn.RMSNorm(weight.shape, eps=eps)
    exact.weight = weight
    probe = torch.linspace(-1.0, 2.0, weight.numel(), dtype=weight.dtype, device=weight.device)
    with torch.no_grad():
        difference = (norm(probe[None]) - exact(probe[None])).abs().max().item()
    if difference > PROBE_TOLERANCE:
        raise ValueError(
            f"{type(norm).__name__} differs from a root-mean-square norm by {difference:.1e}, so this model "
            "cannot be made float64 throughout; use dtype: float32"
        )
    return exact
