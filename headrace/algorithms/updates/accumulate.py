"""One optimizer step per batch."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np


class Accumulate:
    """The gradients of all samples, whatever the order they arrive in, then one step: always on-policy."""

    streams: ClassVar[bool] = True

    @property
    def updates_per_batch(self) -> int:
        return 1

    def plan(self, batch: int, groups: np.ndarray) -> Sequence[np.ndarray]:
        return [np.arange(len(groups), dtype=np.int64)]
