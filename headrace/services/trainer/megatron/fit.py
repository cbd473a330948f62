"""Whether a model and a layout of processes fit the Megatron back end, for `check`.

Imports nothing heavy: neither torch nor megatron-core.
"""

import importlib.util
import json
from collections.abc import Mapping
from typing import Any, Protocol

from headrace.services.models import RECIPES, config_file
from headrace.services.models.size import size
from headrace.services.options import PolicyOptions
from headrace.services.trainer.megatron.geometry import indivisible, unsupported


class Layout(Protocol):
    """Over how many processes a model is laid."""

    @property
    def tp(self) -> int:
        """Ranks that share each layer."""
        ...

    @property
    def pp(self) -> int:
        """Stages that the layers are divided into."""
        ...


def missing() -> str | None:
    """What has to be installed first; None if nothing."""
    if importlib.util.find_spec("megatron") is not None and importlib.util.find_spec("megatron.core"):
        return None
    return (
        "backend: megatron needs megatron-core, which is not installed; install it with "
        "`pip install 'headrace[megatron]'`, or train with backend: torch"
    )


def fault(model: str, parallel: Layout) -> str | None:
    """None where `model`, which exists, can be trained over `parallel`, else what is wrong and the ways out.

    What config.json leaves out is not judged here; the back end judges the whole configuration.
    """
    if (problem := unsupported(_config(model))) is not None:
        return f"backend: megatron cannot train model {model!r}: {problem}"
    found = size(model)
    if found is None:
        return None
    problem = indivisible(
        query_groups=found.kv_heads,
        intermediate=found.intermediate,
        layers=found.layers,
        tp=parallel.tp,
        pp=parallel.pp,
    )
    return None if problem is None else f"backend: megatron cannot lay out model {model!r}: {problem}"


def policy_fault(policy: PolicyOptions) -> str | None:
    """None where the back end does what the options of the policy ask, else what is wrong and the ways
    out."""
    if policy.lora is None:
        return None
    return "backend: megatron trains no adapters (lora); leave lora out, or train with backend: torch"


def _config(model: str) -> Mapping[str, Any]:
    found = None if model in RECIPES else config_file(model)
    return {"model_type": "llama"} if found is None else json.loads(found.read_text())
