"""Advantages that reweigh another one's credit, over the whole batch; as plug points."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headrace.algorithms.advantages.base import Advantage
from headrace.algorithms.advantages.tasks import per_task
from headrace.algorithms.advantages.weighting import duration_weighted
from headrace.algorithms.base import GroupScores


@dataclass(frozen=True, kw_only=True)
class PerTask:
    """`per_task` of an advantage with one credit per sample; column `task`, int64 [B]."""

    needs_full_batch: ClassVar[bool] = True
    of: Advantage

    def needs(self) -> tuple[str, ...]:
        return (*self.of.needs(), "task")

    def __call__(self, scores: GroupScores) -> np.ndarray:
        """Raises ValueError for a credit per token: which tokens of a task weigh how much is then its own."""
        credits = np.where(np.isnan(scores.rewards), np.nan, _by_sample(self.of, scores))
        trained = np.array([np.count_nonzero(mask) for mask in scores.column("loss_mask")], dtype=np.int64)
        return per_task(credits, np.asarray(scores.column("task")), trained)


@dataclass(frozen=True, kw_only=True)
class DurationWeighted:
    """`duration_weighted` of an advantage with one credit per sample; column `duration_s`, float64 [B]."""

    needs_full_batch: ClassVar[bool] = True
    of: Advantage

    def needs(self) -> tuple[str, ...]:
        return (*self.of.needs(), "duration_s")

    def __call__(self, scores: GroupScores) -> np.ndarray:
        """Raises ValueError for a credit per token, and for durations that are not above 0."""
        return duration_weighted(_by_sample(self.of, scores), np.asarray(scores.column("duration_s")))


def _by_sample(advantage: Advantage, scores: GroupScores) -> np.ndarray:
    credits = advantage(scores)
    if not isinstance(credits, np.ndarray):
        raise ValueError(
            f"{type(advantage).__name__} credits tokens; this weighs samples: give one that credits samples"
        )
    return credits
