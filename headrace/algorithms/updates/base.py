"""What an update schedule is: it says which samples of a batch each optimizer step sees, and in which order.

A group is never split between optimizer steps, and every sample is seen `epochs` times.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np


class UpdateSchedule(Protocol):
    streams: ClassVar[bool]
    """Whether a batch's gradient may be accumulated before its last group is there: one optimizer step, all
    samples, any order. Else the whole batch must be there, with the proximal policy's log-probabilities."""

    @property
    def updates_per_batch(self) -> int:
        """Optimizer steps per batch: learning-rate schedules count these."""
        ...

    def plan(self, batch: int, groups: np.ndarray, *, seed: int) -> Sequence[np.ndarray]:
        """Indices of the samples of each optimizer step, `updates_per_batch` arrays int64 [n].

        `batch` counts the training steps of the run from 0; `groups` int64 [B]; `seed` is the run's. Pure: a
        replay gets the same.
        """
        ...
