"""E2H Reasoner, https://arxiv.org/abs/2506.06632: from easy levels to hard ones."""

import math

import numpy as np
import pytest

from headrace.algorithms.curricula import (
    CosineLevels,
    DataSampler,
    GaussianLevels,
    Mixture,
    cosine_levels,
    gaussian_levels,
)
from headrace.algorithms.curricula.options import E2hCosineOptions, E2hGaussianOptions, MixtureOptions
from headrace.algorithms.prompt_data import PromptData
from tests.algorithms.papers.learners import Skills, train


@pytest.mark.parametrize(
    ("progress", "expected"), [(0.0, [3 / 6, 2 / 6, 1 / 6]), (0.5, [1 / 3] * 3), (1.0, [1 / 6, 2 / 6, 3 / 6])]
)
def test_the_cosine_schedule_at_its_start_middle_and_end(progress: float, expected: list[float]) -> None:
    assert cosine_levels(progress, 3).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("progress", "distances"), [(0.0, [0, 1, 2]), (0.5, [1, 0, 1]), (1.0, [2, 1, 0])])
def test_the_gaussian_schedule_at_its_start_middle_and_end(progress: float, distances: list[int]) -> None:
    curve = [math.exp(-2 * distance**2) for distance in distances]
    expected = [0.05 + 0.85 * value / sum(curve) for value in curve]
    got = gaussian_levels(progress, 3, exponent=1.0, sigma=0.5, floor=0.05)
    assert got.tolist() == pytest.approx(expected, abs=1e-12)


def test_an_exponent_below_one_leaves_the_easy_levels_sooner() -> None:
    early = gaussian_levels(0.25, 3, exponent=0.5, sigma=0.5)
    assert early.argmax() == 1
    assert gaussian_levels(0.25, 3, exponent=2.0, sigma=0.5).argmax() == 0


LEVELS = np.repeat(np.arange(5), 4)
DATA = PromptData(size=20, domains=LEVELS, prompts_per_step=8, steps=100)


def hard_success(sampler: DataSampler, *, gap: float) -> float:
    """Success on the hardest of five levels at the end; one skill serves all, each `gap` above the last.

    Answers to a level far above or below the skill teach nothing.
    """
    policy = Skills(
        skills=np.array([0.0]), owners=np.zeros(20, dtype=np.int64), difficulties=gap * LEVELS, rate=0.9
    )
    return float(train(policy, sampler, steps=100, prompts_per_step=8, samples=8)[-1, -1])


def test_the_gaussian_schedule_solves_the_hard_level_where_a_uniform_mix_leaves_it() -> None:
    options = E2hGaussianOptions(exponent=1.0, sigma=0.5)
    assert hard_success(GaussianLevels(DATA, options), gap=4.0) > 0.5
    assert hard_success(Mixture(DATA, MixtureOptions()), gap=4.0) < 0.1


def test_the_cosine_schedule_gets_further_on_the_hard_level_than_a_uniform_mix() -> None:
    uniform = hard_success(Mixture(DATA, MixtureOptions()), gap=3.0)
    assert hard_success(CosineLevels(DATA, E2hCosineOptions()), gap=3.0) > uniform + 0.2
