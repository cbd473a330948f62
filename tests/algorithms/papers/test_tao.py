"""Offline warm-up, then online training: stored answers first, no rollouts; then the policy's own."""

import numpy as np

from headrace.algorithms.advantages import group_mean
from headrace.algorithms.curricula import Uniform
from headrace.algorithms.curricula.options import UniformOptions
from headrace.algorithms.prompt_data import PromptData
from tests.algorithms.papers.learners import softmax

PROMPTS, ARMS, SAMPLES = 20, 30, 8


def updated(logits: np.ndarray, prompts: np.ndarray, answers: np.ndarray, targets: np.ndarray) -> np.ndarray:
    rewards = (answers == targets[prompts]).astype(np.float64)
    advantages = group_mean(rewards, prompts)
    moved = logits.copy()
    scores = np.eye(ARMS)[answers] - softmax(logits)[prompts]
    np.add.at(moved, prompts, advantages[:, None] * scores)
    return moved


def online(logits: np.ndarray, targets: np.ndarray, steps: int) -> float:
    generator, sampler = np.random.default_rng(1), Uniform(PromptData(size=PROMPTS, seed=0), UniformOptions())
    for _ in range(steps):
        prompts = np.repeat(sampler.draw(4), SAMPLES)
        policy = softmax(logits)[prompts]
        answers = (policy.cumsum(axis=1) > generator.random((len(prompts), 1))).argmax(axis=1)
        logits = updated(logits, prompts, answers, targets)
    return float(softmax(logits)[np.arange(PROMPTS), targets].mean())


def test_a_warm_start_from_stored_answers_ends_higher_at_equal_online_steps() -> None:
    generator = np.random.default_rng(0)
    targets = generator.integers(0, ARMS, PROMPTS)
    stored_prompts = np.repeat(np.arange(PROMPTS), 64)
    stored_answers = generator.integers(0, ARMS, len(stored_prompts))
    warm = updated(np.zeros((PROMPTS, ARMS)), stored_prompts, stored_answers, targets)
    assert online(warm, targets, 40) > online(np.zeros((PROMPTS, ARMS)), targets, 40) + 0.1
