"""PSN-RLVR: noise on the weights explores whole answers where noise on tokens explores each alone."""

import numpy as np
import torch

from headrace.algorithms.base import PolicyOutput
from headrace.algorithms.parameter_noise import NoiseScale, perturbed
from tests.algorithms.batches import made, token_batch, vector

DEPTH = 10
HABIT = torch.tensor([2.0], dtype=torch.float64)
"""The one weight: logit of the habitual branch at every fork. The prize lies at the end of the other one,
taken ten times over, and every leaf on the way pays less than the habit: the reward deceives."""
ATTEMPTS, RUNS = 64, 200


def chance_of_prize(weight: float, temperature: float = 1.0) -> float:
    return float((1.0 / (1.0 + np.exp(weight / temperature))) ** DEPTH)


def noisy(sigma: float, seed: int) -> float:
    ((_, weight),) = perturbed([("habit", HABIT)], sigma=sigma, seed=seed)
    return float(weight)


def test_the_best_of_64_answers_finds_the_prize_more_often_than_at_a_high_temperature() -> None:
    found = 0
    generator = np.random.default_rng(0)
    for run in range(RUNS):
        chances = [chance_of_prize(noisy(2.0, run * ATTEMPTS + attempt)) for attempt in range(ATTEMPTS)]
        found += bool((generator.random(ATTEMPTS) < chances).any())
    hot = 1.0 - (1.0 - chance_of_prize(float(HABIT), temperature=2.0)) ** ATTEMPTS
    assert found / RUNS > 0.5
    assert hot < 0.05


def test_the_controller_holds_the_diversity_within_a_tenth_of_its_target() -> None:
    """Diversity: the standard deviation over answers of the chance to leave the habit."""
    scale, seen = NoiseScale(target=0.2, sigma=0.05), []
    for step in range(60):
        leaves = [1.0 / (1.0 + np.exp(noisy(scale.sigma, step * 256 + answer))) for answer in range(256)]
        seen.append(float(np.std(leaves)))
        scale.observe(seen[-1])
    assert abs(np.mean(seen[30:]) - 0.2) < 0.02
    assert float(np.mean(np.abs(np.array(seen[30:]) - 0.2) < 0.02)) > 0.8


def test_what_the_noisy_policy_said_is_weighed_by_the_truncated_ratio() -> None:
    """Weights min(pi / mu, C) of pi / mu = 1.5 and 4, C the published 2, read off the gradient."""
    algorithm = made("rapid")
    current = vector(-0.5, -0.5).requires_grad_()
    behaviour = vector(-0.5 - float(np.log(1.5)), -0.5 - float(np.log(4.0)))
    loss = algorithm.loss(PolicyOutput(logprobs=current), token_batch([[1, 1]], behaviour=behaviour))
    (gradient,) = torch.autograd.grad(loss.total, current)
    assert torch.allclose(gradient, vector(-1.5, -2.0), rtol=0, atol=1e-12)
