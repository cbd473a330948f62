"""DUMP, https://arxiv.org/abs/2504.09710: the source that can be learned gets the samples."""

import numpy as np

from headrace.algorithms.curricula import Dump, Mixture
from headrace.algorithms.curricula.options import DumpOptions, MixtureOptions
from headrace.algorithms.prompt_data import PromptData
from tests.algorithms.papers.learners import Skills, train

SOLVED, LEARNABLE, IMPOSSIBLE = 0, 1, 2
SOURCES = np.repeat([SOLVED, LEARNABLE, IMPOSSIBLE], 10)
DATA = PromptData(size=30, domains=SOURCES)


def skills() -> Skills:
    return Skills(skills=np.array([6.0, -1.0, -8.0]), owners=SOURCES, difficulties=np.zeros(30), rate=0.3)


def test_the_learnable_source_gets_most_samples_and_every_source_keeps_some() -> None:
    sampler, policy = Dump(DATA, DumpOptions()), skills()
    shares = []
    for _ in range(60):
        prompts = sampler.draw(16)
        sampler.update(policy.learn(prompts, 8))
        shares.append(np.bincount(SOURCES[prompts], minlength=3) / 16)
        assert (sampler.weights(0) > 0).all()
    warm = np.array(shares)[10:40]
    assert warm[:, LEARNABLE].mean() > 0.6
    assert (np.sum(shares, axis=0) > 0).all()


def test_the_target_reward_is_reached_in_fewer_steps_than_by_a_uniform_mix() -> None:
    def steps_to_target(sampler: Dump | Mixture) -> int:
        success = train(skills(), sampler, steps=150, prompts_per_step=16, samples=8)[:, 10]
        return int(np.argmax(success > 0.9))

    curriculum = steps_to_target(Dump(DATA, DumpOptions()))
    uniform = steps_to_target(Mixture(DATA, MixtureOptions()))
    assert 0 < curriculum < 0.6 * uniform
