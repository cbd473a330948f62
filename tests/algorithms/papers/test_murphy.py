"""MURPHY, https://arxiv.org/abs/2511.07833: an attempt is worth what its refinements make of it."""

from itertools import combinations

import numpy as np

from headrace.algorithms.advantages import group_zscore, refinement_zscore, widest
from tests.algorithms.papers.learners import softmax

DIRECT, PROBE = 0, 1
DIRECT_CHANCE, FIXES, RIGHT_FIX = 0.3, 4, 2
"""A probe fails, but its feedback names the fault, so that one of four fixes always works; after a direct
failure the fault is unknown and a fix works one time in four."""


class Policy:
    def __init__(self) -> None:
        self.first = np.zeros(2)
        self.informed = np.zeros(FIXES)
        """Fixes after a probe's feedback."""

    def solved_by_turn_two(self) -> float:
        direct = DIRECT_CHANCE + (1 - DIRECT_CHANCE) / FIXES
        return float(softmax(self.first) @ np.array([direct, softmax(self.informed)[RIGHT_FIX]]))


def step(policy: Policy, generator: np.random.Generator, *, first: int, refined: int) -> None:
    """`first` attempts, `refined` refinements of each failure; credit as MURPHY, or GRPO where none."""
    answers = generator.choice(2, size=first, p=softmax(policy.first))
    rewards = ((answers == DIRECT) & (generator.random(first) < DIRECT_CHANCE)).astype(np.float64)
    failures = np.flatnonzero(rewards == 0) if refined else np.zeros(0, dtype=np.int64)
    parents = np.repeat(failures, refined)
    informed = answers[parents] == PROBE
    fixes = np.where(
        informed,
        generator.choice(FIXES, size=len(parents), p=softmax(policy.informed)),
        generator.integers(0, FIXES, len(parents)),
    )
    right = np.where(informed, RIGHT_FIX, generator.integers(0, FIXES, len(parents)))
    scores = np.concatenate([rewards, fixes == right])
    above = np.concatenate([np.full(first, -1), parents])
    groups = np.zeros(len(scores), dtype=np.int64)
    credits = refinement_zscore(scores, above, groups) if refined else group_zscore(scores, groups)
    policy.first += 0.3 * (credits[:first, None] * (np.eye(2)[answers] - softmax(policy.first))).mean(axis=0)
    if informed.any():
        own = credits[first:][informed]
        steps = own[:, None] * (np.eye(FIXES)[fixes[informed]] - softmax(policy.informed))
        policy.informed += 0.3 * steps.mean(axis=0)


def test_more_is_solved_at_turn_two_than_by_single_turn_training_at_equal_samples() -> None:
    refining, single = Policy(), Policy()
    generator = np.random.default_rng(0)
    for _ in range(300):
        step(refining, generator, first=4, refined=3)
        step(single, generator, first=16, refined=0)
    assert refining.solved_by_turn_two() > 0.9
    assert single.solved_by_turn_two() < 0.6


def test_pruning_keeps_the_chosen_count_with_the_widest_spread() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        values = generator.integers(0, 5, size=7).astype(np.float64)
        kept = widest(values, 4)
        assert len(kept) == 4
        best = max(values[list(c)].var() for c in combinations(range(7), 4))
        assert abs(values[kept].var() - best) < 1e-12
