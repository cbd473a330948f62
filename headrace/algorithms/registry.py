"""Algorithms by the name that a dataflow gives as `kind`."""

from collections.abc import Mapping
from typing import Any

from headrace.algorithms.base import Algorithm
from headrace.algorithms.grpo import Grpo

ALGORITHMS: dict[str, type[Algorithm]] = {"grpo": Grpo}


def build(kind: str, values: Mapping[str, Any]) -> Algorithm:
    """The algorithm `kind`, its keywords from `values` (the options' fields without `kind`).

    Raises ValueError for an unknown kind or a value out of range.
    """
    if kind not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {kind!r}; choose one of {', '.join(sorted(ALGORITHMS))}")
    return ALGORITHMS[kind](**values)
