"""The toy mixture of DUMP's paper through the source's own stream, heard as late as a run hears it."""

from collections import deque
from pathlib import Path

import numpy as np

from headrace.algorithms.budgets import Fixed
from headrace.algorithms.budgets.options import FixedOptions
from headrace.algorithms.curricula import DataSampler, Dump, Mixture
from headrace.algorithms.curricula.options import DumpOptions, MixtureOptions
from headrace.algorithms.prompt_data import PromptData
from headrace.services.data_position import DataPosition
from headrace.services.source.adaptive import AdaptiveStream, Share
from headrace.services.source.datasets.base import Labels
from headrace.services.source.domains import DomainFigures
from headrace.services.source.journal import Journal
from headrace.services.source.order import DataOrder
from tests.algorithms.papers.learners import Skills

SOURCES = np.repeat([0, 1, 2], 10)
"""Solved, learnable, impossible."""
DATA = PromptData(size=30, domains=SOURCES)
STEPS, LATE, PROMPTS, SAMPLES = 150, 3, 16, 8


def steps_to_target(sampler: DataSampler, folder: Path) -> int:
    """Steps until the learnable prompts are solved in 9 of 10 tries, `LATE` steps being under way."""
    stream = AdaptiveStream(
        sampler,
        Fixed(DATA, FixedOptions()),
        Journal(folder),
        share=Share(prompts=PROMPTS, samples_per_prompt=SAMPLES, most=SAMPLES, size=DATA.size),
        figures=DomainFigures(Labels()),
        order=DataOrder(size=DATA.size, seed=0),
        used=DataPosition(),
    )
    policy = Skills(skills=np.array([6.0, -1.0, -8.0]), owners=SOURCES, difficulties=np.zeros(30), rate=0.3)
    under_way = deque(stream.next() for _ in range(LATE))
    for step in range(STEPS):
        picks = under_way.popleft()
        feedback = policy.learn(np.array([pick.index for pick in picks]), SAMPLES)
        stream.hear(np.repeat([pick.position for pick in picks], SAMPLES), feedback.rewards)
        under_way.append(stream.next())
        if policy.success()[10] > 0.9:
            return step
    return STEPS


def test_dump_reaches_the_target_before_a_uniform_mix_though_it_hears_late(tmp_path: Path) -> None:
    curriculum = steps_to_target(Dump(DATA, DumpOptions()), tmp_path / "dump")
    uniform = steps_to_target(Mixture(DATA, MixtureOptions()), tmp_path / "uniform")
    assert 0 < curriculum < 0.6 * uniform < 0.6 * STEPS
