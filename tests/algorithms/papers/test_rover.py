"""ROVER, https://arxiv.org/abs/2509.24981: the values of a uniformly random policy are enough to act well.

A tree of three tokens with three choices each; three of the 27 answers are right, one below each first token.
Values are tabular: a table of Q stands where a language model has its log-ratio. The published check asks
for the entropy over right answers; that it stays near uniform needs right answers that are spread evenly: a
softmax over values prefers the branch that holds more of them.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from headrace.algorithms.base import GroupScores, PolicyOutput, TokenBatch
from headrace.algorithms.losses import rover, rover_targets
from tests.algorithms.batches import made

PATHS = torch.tensor(list(itertools.product(range(3), repeat=3)))
RIGHT = torch.tensor([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
REWARDS = (PATHS[:, None] == RIGHT[None]).all(-1).any(-1).double()
TEMPERATURE = 0.1


def places(paths: torch.Tensor) -> torch.Tensor:
    """[B, 3], row of the table at each token: the root, its 3 children, their 9."""
    return torch.stack(
        (torch.zeros(len(paths)).long(), 1 + paths[:, 0], 4 + 3 * paths[:, 0] + paths[:, 1]), 1
    )


def chosen(table: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
    """[B, 3], the table's entries along each path."""
    return table[places(paths)].gather(2, paths[:, :, None])[:, :, 0]


def spread(table: torch.Tensor) -> tuple[float, float]:
    """Probability of a right answer, and the entropy over the right ones as a share of the uniform one."""
    right = chosen(torch.log_softmax(table.detach(), dim=-1), RIGHT).sum(dim=1).exp()
    shares = right / right.sum()
    return right.sum().item(), -(shares * shares.log()).sum().item() / math.log(3)


def regressed() -> torch.Tensor:
    """Q [13, 3] of the uniformly random policy: ROVER's regression on every path once."""
    table = torch.zeros(13, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([table], lr=4.0)
    sample = torch.arange(27).repeat_interleave(3)
    nothing = torch.zeros(81, dtype=torch.float64)
    for _ in range(300):
        means = table[places(PATHS)].mean(dim=-1).flatten()
        targets = rover_targets(means, nothing, REWARDS.repeat_interleave(3), sample=sample)
        optimizer.zero_grad()
        rover(chosen(table, PATHS).flatten(), nothing, targets).mean().backward()
        optimizer.step()
    return table.detach()


def reinforced(seed: int) -> torch.Tensor:
    """Logits [13, 3] after GRPO on answers of its own, four updates a batch."""
    algorithm, generator = made("grpo"), torch.Generator().manual_seed(seed)
    table = torch.zeros(13, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([table], lr=0.1)
    for _ in range(150):
        probabilities = chosen(torch.log_softmax(table.detach(), dim=-1), PATHS).sum(dim=1).exp()
        drawn = torch.multinomial(probabilities, 32, replacement=True, generator=generator)
        batch = step(table, drawn)
        scores = GroupScores(
            groups=np.zeros(32, dtype=int), rewards=REWARDS[drawn].numpy(), lengths=np.full(32, 3)
        )
        credit = torch.from_numpy(np.asarray(algorithm.advantages(scores))).repeat_interleave(3)
        for _ in range(4):
            logprobs = chosen(torch.log_softmax(table, dim=-1), PATHS[drawn]).flatten()
            loss = algorithm.loss(PolicyOutput(logprobs=logprobs), batch(credit))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
    return table


def step(table: torch.Tensor, drawn: torch.Tensor) -> Callable[[torch.Tensor], TokenBatch]:
    """The answers drawn, as a batch still without its credit."""
    behaviour = chosen(torch.log_softmax(table.detach(), dim=-1), PATHS[drawn]).flatten()

    def batch(credit: torch.Tensor) -> TokenBatch:
        return TokenBatch(
            behaviour_logprobs=behaviour,
            advantages=credit,
            mask=torch.ones(96, dtype=torch.float64),
            sample=torch.arange(32).repeat_interleave(3),
            samples=32,
            group=torch.zeros(32, dtype=torch.int64),
            rewards=REWARDS[drawn],
            group_tokens=torch.full((32,), 96.0, dtype=torch.float64),
        )

    return batch


def test_the_regression_ends_at_the_values_of_the_uniformly_random_policy() -> None:
    """Every token is given the answer's reward: Q is the mean reward below, once for each token to come."""
    table = regressed()
    assert table[0].tolist() == pytest.approx([3 / 9] * 3, abs=1e-9)
    assert table[1].tolist() == pytest.approx([0.0, 2 / 3, 0.0], abs=1e-9)
    assert table[4 + 3 * 0 + 1].tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-9)


def test_acting_on_them_finds_every_right_answer_where_grpo_settles_on_few() -> None:
    success, kept = spread(regressed() / TEMPERATURE)
    assert success > 0.99 and kept > 0.9
    success, kept = spread(reinforced(seed=0))
    assert success > 0.99 and kept < 0.6
