"""PACED-RL: the partition function that the loss fits tells how often each prompt is solved."""

import numpy as np

from headrace.algorithms.curricula import Paced, Uniform
from headrace.algorithms.curricula.options import PacedRlOptions, UniformOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from tests.algorithms.papers.learners import softmax

PROMPTS, ANSWERS, BETA, SAMPLES = 60, 12, 2.0, 8
DATA = PromptData(size=PROMPTS)


class FlowPolicy:
    """Softmax over answers, moved by trajectory balance to reference * exp(beta * reward) / Z, with its Z."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.right = self.generator.random((PROMPTS, ANSWERS)) < self.generator.beta(0.3, 0.3, (PROMPTS, 1))
        self.reference = np.log(softmax(self.generator.normal(size=(PROMPTS, ANSWERS))))
        self.logits = self.reference.copy()
        self.log_partitions = np.zeros(PROMPTS)

    def accuracy(self) -> np.ndarray:
        return (softmax(self.logits) * self.right).sum(axis=1)

    def learn(self, prompts: np.ndarray) -> Feedback:
        rows = np.repeat(prompts, SAMPLES)
        policy = softmax(self.logits)[rows]
        answers = (policy.cumsum(axis=1) > self.generator.random((len(rows), 1))).argmax(axis=1)
        rewards = self.right[rows, answers].astype(np.float64)
        divergences = np.log(policy[np.arange(len(rows)), answers]) - self.reference[rows, answers]
        residuals = self.log_partitions[rows] + divergences - BETA * rewards
        np.add.at(self.log_partitions, rows, -0.3 * residuals / SAMPLES)
        steps = -0.02 * residuals[:, None] * (np.eye(ANSWERS)[answers] - policy)
        np.add.at(self.logits, rows, steps)
        return Feedback(
            prompts=rows,
            rewards=rewards,
            log_partitions=self.log_partitions[rows],
            divergences=divergences,
        )


def idle_share(sampler: Paced | Uniform) -> tuple[float, FlowPolicy]:
    """Share of groups with equal rewards after the first passes over the data."""
    policy, idle = FlowPolicy(), []
    for step in range(120):
        feedback = policy.learn(sampler.draw(10))
        sampler.update(feedback)
        if step >= 30:
            groups = feedback.rewards.reshape(10, SAMPLES)
            idle.append(float((groups.std(axis=1) == 0).mean()))
    return float(np.mean(idle)), policy


def test_the_partition_function_tells_the_accuracy_of_each_prompt() -> None:
    sampler, policy, uniform = (
        Paced(DATA, PacedRlOptions(beta=BETA)),
        FlowPolicy(),
        Uniform(DATA, UniformOptions()),
    )
    for _ in range(120):
        sampler.update(policy.learn(uniform.draw(10)))
    assert np.corrcoef(sampler.accuracies, policy.accuracy())[0, 1] > 0.9


def test_groups_without_a_signal_fall_by_two_fifths_at_equal_rollouts() -> None:
    paced, _ = idle_share(Paced(DATA, PacedRlOptions(beta=BETA)))
    uniform, _ = idle_share(Uniform(DATA, UniformOptions()))
    assert paced < 0.6 * uniform
