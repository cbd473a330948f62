"""Policies of a few numbers under a policy gradient: logits of success, and softmax over answers."""

from dataclasses import dataclass, field

import numpy as np

from headrace.algorithms.advantages import group_zscore
from headrace.algorithms.curricula import DataSampler
from headrace.algorithms.feedback import Feedback


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-logits))


def softmax(logits: np.ndarray) -> np.ndarray:
    exps = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


@dataclass(slots=True, kw_only=True)
class Skills:
    """Success on prompt i is sigmoid(skill[owner[i]] - difficulty[i]); trained by REINFORCE on samples."""

    skills: np.ndarray
    owners: np.ndarray
    """int64, which skill a prompt needs."""
    difficulties: np.ndarray
    rate: float
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def success(self) -> np.ndarray:
        return sigmoid(self.skills[self.owners] - self.difficulties)

    def learn(self, prompts: np.ndarray, samples: int) -> Feedback:
        """One step on `samples` answers to each prompt, credited within their group."""
        rows = np.repeat(prompts, samples)
        chances = self.success()[rows]
        rewards = (self.generator.random(len(rows)) < chances).astype(np.float64)
        advantages = group_zscore(rewards, np.repeat(np.arange(len(prompts)), samples))
        gradients = advantages * (rewards - chances) / len(rows)
        np.add.at(self.skills, self.owners[rows], self.rate * gradients)
        return Feedback(prompts=rows, rewards=rewards, advantages=advantages)


def train(
    skills: Skills, sampler: DataSampler, *, steps: int, prompts_per_step: int, samples: int
) -> np.ndarray:
    """Success by prompt before each step and after the last, float64 [steps + 1, size]."""
    successes = [skills.success()]
    for _ in range(steps):
        sampler.update(skills.learn(sampler.draw(prompts_per_step), samples))
        successes.append(skills.success())
    return np.array(successes)
