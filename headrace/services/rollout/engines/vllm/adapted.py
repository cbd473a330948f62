"""A policy of which adapters alone are published, for a vLLM that takes whole weights.

Invariant: what is served of a version is what its checkpoint's merged export holds, bit for bit.
"""

from collections.abc import Mapping
from typing import Any

from headrace.services.models.lora import added
from headrace.services.options import LoraOptions
from headrace.services.rollout.engines.vllm.decoder import Shape


class Adapted:
    """A `Shape` of the adapters, which it adds to the weights that they were attached to."""

    def __init__(self, shape: Shape, base: Mapping[str, Any], lora: LoraOptions) -> None:
        """`shape`: of the adapters by `check`, of whole weights by `named`; `base`: whole weights, kept."""
        self.vocabulary = shape.vocabulary
        self.longest = shape.longest
        self._shape = shape
        self._base = base
        self._scale = lora.alpha / lora.rank

    def check(self, weights: Mapping[str, Any]) -> None:
        """See `Shape.check`; of the adapters."""
        self._shape.check(weights)

    def named(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """See `Shape.named`; whole weights from checked adapters."""
        return self._shape.named(added(self._base, weights, scale=self._scale))
