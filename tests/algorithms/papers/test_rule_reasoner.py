"""RuleReasoner, https://arxiv.org/abs/2506.08672: the domain that lags behind is drawn more.

The check that the worse domain's weight *rises* until rewards meet is ill-posed: the weight follows the gap,
and the gap shrinks from the first step on. What holds is that the worse domain weighs more until rewards
meet, and that its weight falls steadily to its share.
"""

import numpy as np
import pytest

from headrace.algorithms.curricula import Mixture, UnderOptimised
from headrace.algorithms.curricula.options import MixtureOptions, RuleReasonerOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.prompt_data import PromptData
from tests.algorithms.papers.learners import Skills, train

DOMAINS = np.repeat([0, 1], 8)
DATA = PromptData(size=16, domains=DOMAINS)


def test_the_worse_domain_weighs_more_and_falls_back_to_its_share_as_rewards_meet() -> None:
    sampler = UnderOptimised(PromptData(size=2, domains=np.array([0, 1])), RuleReasonerOptions())
    rewards = np.array([0.9, 0.1])
    weights = []
    for _ in range(40):
        sampler.update(Feedback(prompts=np.array([0, 1]), rewards=rewards))
        weights.append(sampler.weights(0)[1])
        rewards[1] += 0.1 * (rewards[0] - rewards[1])
    assert weights[0] == pytest.approx(1 / (1 + np.exp(-0.8 / 0.25)), abs=1e-12)
    assert (np.diff(weights) <= 1e-15).all()
    assert min(weights) > 0.5
    assert weights[-1] == pytest.approx(0.5, abs=0.02)


def test_the_worse_domain_ends_above_that_of_a_fixed_mix() -> None:
    def worst(sampler: UnderOptimised | Mixture) -> float:
        policy = Skills(skills=np.array([1.0, -2.5]), owners=DOMAINS, difficulties=np.zeros(16), rate=0.3)
        return float(train(policy, sampler, steps=60, prompts_per_step=8, samples=8)[-1].min())

    curriculum = worst(UnderOptimised(DATA, RuleReasonerOptions()))
    fixed = worst(Mixture(DATA, MixtureOptions()))
    assert curriculum > fixed + 0.1
