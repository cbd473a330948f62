from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from headrace.algorithms.advantages import ContextSplit, DurationWeighted, PerTask, TurnLevel, group_mean
from headrace.algorithms.base import Advantages, GroupScores

NAN = float("nan")


@dataclass(frozen=True)
class Centred:
    needs_full_batch: ClassVar[bool] = False

    def needs(self) -> tuple[str, ...]:
        return ()

    def __call__(self, scores: GroupScores) -> Advantages:
        return group_mean(scores.rewards, scores.groups)


def scores(rewards: list[float], **columns: Any) -> GroupScores:
    return GroupScores(
        groups=np.array([0, 0, 1, 1, 1])[: len(rewards)],
        rewards=np.array(rewards),
        lengths=np.ones(len(rewards), dtype=np.int64),
        columns=columns,
    )


def test_each_task_is_normalised_over_its_trained_tokens_without_invalid_samples() -> None:
    masks = [np.ones(3), np.array([1, 0, 0]), np.ones(2), np.ones(2), np.ones(9)]
    got = PerTask(of=Centred())(
        scores([0.0, 2.0, 10.0, 30.0, NAN], task=np.array([0, 0, 1, 1, 1]), loss_mask=masks)
    )
    assert got.tolist() == pytest.approx([-0.5 / 0.75**0.5, 1.5 / 0.75**0.5, -1.0, 1.0, 0.0], abs=1e-12)
    assert PerTask(of=ContextSplit()).needs() == ("context", "task")


def test_durations_weigh_the_credit_of_another() -> None:
    got = DurationWeighted(of=Centred())(scores([0.0, 2.0], duration_s=np.array([1.0, 3.0])))
    assert got.tolist() == [-0.5, 1.5]
    assert DurationWeighted(of=Centred()).needs() == ("duration_s",)


def test_a_credit_per_token_is_refused() -> None:
    turns = [np.array([0]), np.array([0])]
    batch = scores([0.0, 1.0], turn_rewards=turns, turns=turns, duration_s=np.ones(2))
    with pytest.raises(ValueError, match="TurnLevel credits tokens"):
        DurationWeighted(of=TurnLevel())(batch)
