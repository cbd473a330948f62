"""Lite PPO, https://arxiv.org/abs/2508.08221: its two techniques, and every switch beside them on its own."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from headrace.algorithms.base import GroupScores, PolicyOutput
from headrace.algorithms.filters import Overlong, ScoredRows
from tests.algorithms.batches import made, token_batch, vector

GROUPS = np.array([0, 0, 1, 1])
REWARDS = np.array([0.0, 1.0, 3.0, 4.0])
WHOLE = np.ones(4, dtype=bool)
TRUNCATED = np.array([False, False, True, False])
MASK = [[1], [1, 1], [1, 1], [1]]
LOGPROBS = vector(-0.5, -1.0, -0.3, -0.7, -0.2, -0.9)
SPREAD = (10 / 3) ** 0.5 + 1e-4
"""Standard deviation of the batch's rewards, sample's, plus the floor."""


def loss(*, filtered: bool, **options: Any) -> float:
    algorithm = made("grpo", **options)
    scores = GroupScores(groups=GROUPS, rewards=REWARDS, lengths=np.array([len(row) for row in MASK]))
    credits = algorithm.advantages(scores)
    assert isinstance(credits, np.ndarray)
    mask = [list(row) for row in MASK]
    if filtered:
        rows = ScoredRows(groups=GROUPS, rewards=REWARDS, truncated=TRUNCATED, retokenises=WHOLE)
        for row in Overlong().judge(rows).rows:
            mask[row] = [0] * len(mask[row])
    lengths = [len(row) for row in MASK]
    advantages = torch.repeat_interleave(torch.from_numpy(credits), torch.tensor(lengths))
    batch = token_batch(mask, groups=GROUPS.tolist(), behaviour=LOGPROBS - 0.1, advantages=advantages)
    got = algorithm.loss(PolicyOutput(logprobs=LOGPROBS), batch)
    return float(got.total / got.count)


def test_group_mean_batch_spread_and_token_mean_by_hand() -> None:
    """The ratio is exp(0.1) on every token; answers of 1, 2, 2, 1 tokens have -, +, -, + 0.5 over SPREAD."""
    ratio, unit = float(np.exp(0.1)), 0.5 / SPREAD
    options = {"advantage": "group_mean_batch_std", "reduction": "token_mean", "clip_high": 0.28}
    assert loss(filtered=False, **options) == pytest.approx(-ratio * unit * (-1 + 2 - 2 + 1) / 6, abs=1e-12)
    assert loss(filtered=True, **options) == pytest.approx(-ratio * unit * (-1 + 2 + 1) / 4, abs=1e-12)


def test_by_sequence_every_answer_weighs_alike() -> None:
    options = {"advantage": "group_mean_batch_std", "reduction": "sequence_mean", "clip_high": 0.28}
    expected = -float(np.exp(0.1)) * 0.5 / SPREAD / 3
    assert loss(filtered=True, **options) == pytest.approx(expected, abs=1e-12)


def test_every_combination_of_switches_runs() -> None:
    credits = ("group_zscore", "group_mean", "batch_zscore", "group_mean_batch_std")
    grid = product(credits, (0.05, 0.28), (False, True), ("token_mean", "sequence_mean"))
    for advantage, clip_high, filtered, reduction in grid:
        got = loss(filtered=filtered, advantage=advantage, clip_high=clip_high, reduction=reduction)
        assert np.isfinite(got), (advantage, clip_high, filtered, reduction)
