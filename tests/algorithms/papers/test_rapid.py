"""RAPID, https://arxiv.org/abs/2510.03515: large batches of samples, then several updates on each.

That the gradient is unbiased holds for the leave-one-out baseline; the mean of the group, which holds the
sample itself, shrinks it by (G - 1) / G, and a division by the group's spread biases it. Asserted exactly,
over every group that can be drawn, where a Monte Carlo error would do.
"""

from itertools import product

import numpy as np
import pytest
import torch

from headrace.algorithms.base import GroupScores, PolicyOutput
from headrace.algorithms.updates import Accumulate, MiniBatches, UpdateSchedule
from tests.algorithms.batches import made, token_batch

REWARDS = torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
CURRENT = torch.tensor([0.4, -0.2, 0.1], dtype=torch.float64)
BEHAVIOUR = torch.log_softmax(torch.tensor([0.0, 0.5, -0.3], dtype=torch.float64), dim=0)
SIZE = 3


def expected_gradient(advantage: str) -> torch.Tensor:
    """Gradient of the loss in the logits, over all groups of three answers that the behaviour may draw."""
    algorithm = made("rapid", advantage=advantage, weight_high=float("inf"))
    logits, total = CURRENT.clone().requires_grad_(), torch.zeros((), dtype=torch.float64)
    for group in product(range(3), repeat=SIZE):
        answers = torch.tensor(group)
        scores = GroupScores(
            groups=np.zeros(SIZE, dtype=np.int64),
            rewards=REWARDS[answers].numpy(),
            lengths=np.ones(SIZE, dtype=np.int64),
        )
        credits = algorithm.advantages(scores)
        assert isinstance(credits, np.ndarray)
        batch = token_batch(
            [[1]] * SIZE,
            groups=[0] * SIZE,
            behaviour=BEHAVIOUR[answers],
            advantages=torch.from_numpy(credits),
        )
        logprobs = torch.log_softmax(logits, dim=0)[answers]
        loss = algorithm.loss(PolicyOutput(logprobs=logprobs), batch)
        total = total + BEHAVIOUR[answers].sum().exp() * loss.total / loss.count
    (gradient,) = torch.autograd.grad(total, logits)
    return gradient


def on_policy_gradient() -> torch.Tensor:
    logits = CURRENT.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(-(torch.softmax(logits, dim=0) * REWARDS).sum(), logits)
    return gradient


@pytest.mark.parametrize(("advantage", "scale"), [("leave_one_out", 1.0), ("group_mean", (SIZE - 1) / SIZE)])
def test_before_the_weight_is_bounded_the_gradient_is_that_of_the_policy_itself(
    advantage: str, scale: float
) -> None:
    assert torch.allclose(expected_gradient(advantage), scale * on_policy_gradient(), rtol=0, atol=1e-12)


ARMS, GROUPS, SAMPLES, RATE = 20, 8, 8, 2.0
ROLLOUT_S, UPDATE_S, SWITCH_S = 1.0, 1.0, 0.5
"""Per mini-batch of samples, per update, and per change between generating and training."""


def seconds_to_target(schedule: UpdateSchedule, seed: int) -> float:
    """Virtual time until the policy is right nine times in ten; a batch serves all of its updates."""
    algorithm, generator = made("rapid"), np.random.default_rng(seed)
    updates, clock_s = schedule.updates_per_batch, 0.0
    logits = torch.zeros(ARMS, dtype=torch.float64, requires_grad=True)
    for batch in range(400):
        behaviour = torch.log_softmax(logits.detach(), dim=0)
        samples = updates * GROUPS * SAMPLES
        answers = torch.from_numpy(generator.choice(ARMS, size=samples, p=behaviour.exp().numpy()))
        groups = np.repeat(np.arange(updates * GROUPS), SAMPLES)
        rewards = (answers == 0).numpy().astype(np.float64)
        scores = GroupScores(groups=groups, rewards=rewards, lengths=np.ones(samples, dtype=np.int64))
        credits = algorithm.advantages(scores)
        assert isinstance(credits, np.ndarray)
        clock_s += updates * ROLLOUT_S + 2 * SWITCH_S
        for chosen in schedule.plan(batch, groups, seed=seed):
            own = answers[torch.from_numpy(chosen)]
            tokens = token_batch(
                [[1]] * len(chosen),
                groups=groups[chosen].tolist(),
                behaviour=behaviour[own],
                advantages=torch.from_numpy(credits[chosen]),
            )
            logprobs = torch.log_softmax(logits, dim=0)[own]
            loss = algorithm.loss(PolicyOutput(logprobs=logprobs), tokens)
            (gradient,) = torch.autograd.grad(loss.total / loss.count, logits)
            logits = (logits - RATE * gradient).detach().requires_grad_()
            clock_s += UPDATE_S
            if torch.softmax(logits, dim=0)[0] >= 0.9:
                return clock_s
    raise AssertionError("the target was not reached")


def test_fewer_changes_between_generating_and_training_save_a_tenth_to_a_third_of_the_time() -> None:
    alternating = np.mean([seconds_to_target(Accumulate(), seed) for seed in range(6)])
    rapid = np.mean([seconds_to_target(MiniBatches(number=4), seed) for seed in range(6)])
    assert 0.11 <= 1.0 - rapid / alternating <= 0.34
