"""One optimizer step per batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Accumulate:
    """The gradients of all samples, whatever the order they arrive in, then one step: always on-policy."""

    streams: ClassVar[bool] = True
    kind: Literal["accumulate"] = "accumulate"

    @property
    def updates_per_batch(self) -> int:
        return 1

    def plan(self, batch: int, groups: np.ndarray, *, seed: int) -> Sequence[np.ndarray]:
        return [np.arange(len(groups), dtype=np.int64)]
