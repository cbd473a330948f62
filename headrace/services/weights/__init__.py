"""Versioned weights between a trainer and those that load them: on a node, and from one node to another."""

from headrace.services.weights.store import KEPT_VERSIONS, WeightStore

__all__ = ["KEPT_VERSIONS", "WeightStore"]
