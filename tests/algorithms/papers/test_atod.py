"""ATOD: distillation first, reinforcement later, turns weighed by disagreement and uncertainty."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from headrace.algorithms.advantages import disagreement_weights, group_zscore
from headrace.algorithms.base import GroupScores, PolicyOutput
from headrace.algorithms.updates import Annealed
from tests.algorithms.batches import loss_of, made, token_batch
from tests.algorithms.papers.learners import softmax

ARMS, STEPS, SAMPLES = 50, 300, 16
TEACHER = np.append(0.8, np.full(ARMS - 1, 0.2 / (ARMS - 1)))
"""Right, which is arm 0, four times in five."""


def success(share: Annealed) -> np.ndarray:
    """Chance of the right arm before each step, the distillation weighing share and the reward the rest."""
    generator, logits, track = np.random.default_rng(0), np.zeros(ARMS), []
    for step in range(STEPS):
        policy = softmax(logits)
        track.append(policy[0])
        answers = generator.choice(ARMS, size=SAMPLES, p=policy)
        rewards = (answers == 0).astype(np.float64)
        distil = np.log(TEACHER[answers]) - np.log(policy[answers])
        reinforce = group_zscore(rewards, np.zeros(SAMPLES, dtype=np.int64))
        weight = share.at(step)
        credits = weight * (distil - distil.mean()) + (1.0 - weight) * reinforce
        logits += 0.5 * (credits[:, None] * (np.eye(ARMS)[answers] - policy)).mean(axis=0)
    return np.array(track)


def test_the_annealed_mix_is_as_fast_as_the_teacher_and_ends_above_it() -> None:
    distilled = success(Annealed(start=1.0, end=1.0, last_step=0))
    reinforced = success(Annealed(start=0.0, end=0.0, last_step=0))
    mixed = success(Annealed(start=1.0, end=0.0, last_step=150))
    assert abs(distilled[-50:].mean() - 0.8) < 0.05
    assert reinforced[40] < 0.5 * distilled[40]
    assert mixed[-1] > 0.95


def taught(kind: str, **values: Any) -> np.ndarray:
    """Chance of the right arm before each step, of a student whose teacher is itself trained: it begins as
    ignorant as the student and comes to be right four times in five, and each answer is scored by the
    teacher of its step."""
    generator = torch.Generator().manual_seed(0)
    student, algorithm, track = torch.zeros(ARMS, dtype=torch.float64), made(kind, **values), []
    groups = np.zeros(SAMPLES, dtype=np.int64)
    for step in range(STEPS):
        learned = min(1.0, step / 100)
        teacher = torch.from_numpy((1.0 - learned) / ARMS + learned * TEACHER).log()
        policy = student.log_softmax(0)
        track.append(policy.exp()[0].item())
        answers = torch.multinomial(policy.exp(), SAMPLES, replacement=True, generator=generator)
        rewards = (answers == 0).double().numpy()
        scores = GroupScores(groups=groups, rewards=rewards, lengths=np.ones(SAMPLES))
        batch = token_batch(
            [[1]] * SAMPLES,
            groups=groups.tolist(),
            behaviour=policy[answers],
            advantages=torch.as_tensor(np.asarray(algorithm.advantages(scores))),
            columns={"teacher_logprobs": teacher[answers]},
        )
        leaf = student.clone().requires_grad_()
        current = leaf.log_softmax(0)
        entropy = -(current.exp() * current).sum().detach().expand(SAMPLES)
        output = PolicyOutput(logprobs=current[answers], entropy=entropy)
        loss = loss_of(algorithm, output, replace(batch, progress=step / STEPS))
        (gradient,) = torch.autograd.grad(loss.total / loss.count, leaf)
        student = student - 1.0 * gradient
    return np.array(track)


def test_a_student_follows_a_teacher_that_still_learns_and_passes_it() -> None:
    annealed, distilled = taught("atod", distill_until=0.7), taught("opd")
    assert distilled[60] < 0.02 * 0.4 + 0.8 * 0.6
    assert abs(distilled[-50:].mean() - 0.8) < 0.01
    assert annealed[-1] > 0.95


def test_turn_weights_have_mean_one_whatever_the_turns() -> None:
    generator = np.random.default_rng(0)
    ragged = [generator.exponential(size=turns) for turns in (1, 3, 8)]
    for weights in disagreement_weights(ragged, ragged, temperature=0.5):
        assert abs(weights.mean() - 1.0) < 1e-12
