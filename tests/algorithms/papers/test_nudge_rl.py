"""NudgeRL: hints open strategies that the bare prompt would hardly try; success is distilled into it."""

import numpy as np

from headrace.algorithms.advantages import context_split
from tests.algorithms.papers.learners import softmax

RARE = 1
"""The strategy that solves the task; the policy takes it in 3 of 100 bare answers."""
BARE = np.log(np.array([0.97, 0.03]))
HINTS = 6.0
"""Logit that a hint adds to its own strategy."""


def chance_of_both(hinted: int, bare: int) -> float:
    """Chance that answers under two hints, `hinted` each, and `bare` answers take both strategies."""
    strategies = softmax(BARE + HINTS * np.eye(2))
    missed = [
        softmax(BARE)[1 - each] ** bare * np.prod(strategies[:, 1 - each] ** hinted) for each in range(2)
    ]
    return float(1.0 - sum(missed))


def test_eight_hinted_answers_find_what_four_times_as_many_bare_ones_do_not() -> None:
    assert chance_of_both(hinted=4, bare=0) > 0.99
    assert chance_of_both(hinted=0, bare=32) < 0.7


def test_what_hints_found_reaches_the_bare_prompt() -> None:
    """The distilled term is a policy gradient on the same answers under the bare prompt."""
    generator, logits = np.random.default_rng(0), BARE.copy()
    contexts = np.array([-1, -1, 0, 0, 0, 1, 1, 1])
    for _ in range(200):
        hinted = np.where((contexts >= 0)[:, None], HINTS * np.eye(2)[np.maximum(contexts, 0)], 0.0)
        answers = (generator.random(8) < softmax(logits + hinted)[:, RARE]).astype(np.int64)
        rewards = (answers == RARE).astype(np.float64)
        advantages = context_split(rewards, np.zeros(8, dtype=np.int64), contexts)
        logits += 0.1 * (advantages[:, None] * (np.eye(2)[answers] - softmax(logits))).mean(axis=0)
    assert softmax(logits)[RARE] > 0.9


def test_credit_between_contexts_grows_with_its_weight() -> None:
    rewards, contexts = np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])
    groups = np.zeros(4, dtype=np.int64)
    assert context_split(rewards, groups, contexts, inter_weight=0.0).tolist() == [0.0] * 4
    assert context_split(rewards, groups, contexts)[0] > 0.99
