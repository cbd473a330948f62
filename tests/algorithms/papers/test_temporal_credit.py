"""Temporal scheduling of token credit: emphasis by place in the answer, annealed to none."""

import numpy as np

from headrace.algorithms.advantages import group_zscore, position_weights
from headrace.algorithms.updates import Annealed
from tests.algorithms.papers.learners import softmax

TOKENS, WORDS, SAMPLES, STEPS = 12, 4, 8, 400
DECISIVE = 2
"""Tokens at the end that the reward looks at; the others are free."""


def test_weights_have_mean_one_at_every_step_and_end_uniform() -> None:
    tilt = Annealed(start=6.0, end=0.0, last_step=100)
    for step in (0, 37, 99):
        for weights in position_weights(np.array([1, 5, 12]), tilt=tilt.at(step)):
            assert abs(weights.mean() - 1.0) < 1e-12
    assert all((weights == 1.0).all() for weights in position_weights(np.array([3, 7]), tilt=tilt.at(100)))


def entropy_at(reward: float, *, start: float, seed: int) -> float:
    """Entropy per token when the policy first earns `reward`, in nats."""
    generator, tilt = np.random.default_rng(seed), Annealed(start=start, end=0.0, last_step=STEPS)
    logits = np.zeros((TOKENS, WORDS))
    for step in range(STEPS):
        policy = softmax(logits)
        if policy[-DECISIVE:, 0].prod() >= reward:
            return float(-(policy * np.log(policy)).sum() / TOKENS)
        draws = generator.random((SAMPLES, TOKENS, 1))
        answers = (policy.cumsum(axis=-1) > draws).argmax(axis=-1)
        rewards = (answers[:, -DECISIVE:] == 0).all(axis=1).astype(np.float64)
        advantages = group_zscore(rewards, np.zeros(SAMPLES, dtype=np.int64))
        weights = position_weights(np.array([TOKENS]), tilt=tilt.at(step))[0]
        scores = np.eye(WORDS)[answers] - policy
        logits += weights[:, None] * (advantages[:, None, None] * scores).mean(axis=0)
    raise AssertionError(f"reward {reward} was not reached")


def test_emphasis_where_answers_are_decided_keeps_more_entropy_at_equal_reward() -> None:
    for seed in range(3):
        assert entropy_at(0.9, start=6.0, seed=seed) > entropy_at(0.9, start=0.0, seed=seed) + 0.02
