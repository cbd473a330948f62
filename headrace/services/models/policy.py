"""The language model of a policy: its weights, and its adapters where it has some.

Every reader of a policy opens it by this one function, so that what a trainer publishes fits by name.
"""

from headrace.services.models import LoadedModel, load
from headrace.services.models.lora import attach
from headrace.services.options import PolicyOptions


def load_policy(policy: PolicyOptions, *, seed: int) -> LoadedModel:
    """As `models.load`; adapters, drawn from `seed` too, change nothing before they are trained."""
    loaded = load(policy.model, dtype=policy.dtype, seed=seed)
    if policy.lora is not None:
        attach(loaded.model, policy.lora, seed=seed)
    return loaded
