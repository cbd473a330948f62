"""The model of a policy: its weights, and its adapters where it has some, on the device that runs it.

Every reader of a policy opens it by these functions, so that what a trainer publishes fits by name.
"""

import torch

from headrace.services.devices import CPU
from headrace.services.models import LoadedModel, load
from headrace.services.models.lora import attach
from headrace.services.models.value import load_value
from headrace.services.options import PolicyOptions


def load_policy(policy: PolicyOptions, *, seed: int, device: torch.device = CPU) -> LoadedModel:
    """As `models.load`, moved to `device`; what is drawn is drawn on the CPU and the same on every device.

    Adapters, drawn from `seed` too, change nothing before they are trained.
    """
    loaded = load(policy.model, dtype=policy.precision, seed=seed)
    if policy.lora is not None:
        attach(loaded.model, policy.lora, seed=seed)
    return _moved(loaded, device)


def load_values(policy: PolicyOptions, *, seed: int, device: torch.device = CPU) -> LoadedModel:
    """As `value.load_value`, moved to `device`."""
    return _moved(load_value(policy.model, dtype=policy.precision, seed=seed), device)


def _moved(loaded: LoadedModel, device: torch.device) -> LoadedModel:
    loaded.model.to(device)  # pyright: ignore[reportArgumentType]
    return loaded
