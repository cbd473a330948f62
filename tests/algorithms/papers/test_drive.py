"""DRIVE, https://arxiv.org/abs/2511.06307: a broad stage with 8 samples, then few hard prompts with 64."""

import numpy as np

from headrace.algorithms.budgets import StagedBudget, StageSize
from headrace.algorithms.budgets.options import StagedOptions
from headrace.algorithms.curricula import HardFocus, Stage, Uniform
from headrace.algorithms.curricula.options import HardFocusOptions, UniformOptions
from headrace.algorithms.feedback import pass_rates
from headrace.algorithms.prompt_data import PromptData
from tests.algorithms.papers.learners import Skills

SIZE, KEEP = 30, 10
DATA = PromptData(size=SIZE)
HARD = np.arange(20, 30)
RATE = 0.02
"""Of one rollout: a step's rate grows with its batch."""


def policy() -> Skills:
    return Skills(
        skills=np.zeros(SIZE),
        owners=np.arange(SIZE),
        difficulties=np.repeat([-1.0, 1.0, 3.0], 10),
        rate=RATE * 48,
    )


def staged() -> tuple[Skills, HardFocus, int]:
    skills = policy()
    sampler = HardFocus(
        DATA,
        HardFocusOptions(
            stages=(
                Stage(prompts=240),
                Stage(prompts=1, keep=KEEP),
            )
        ),
    )
    budget = StagedBudget(
        DATA,
        StagedOptions(
            stages=(
                StageSize(prompts=240, samples_per_prompt=8),
                StageSize(prompts=1, samples_per_prompt=64),
            )
        ),
    )
    rollouts, observed = 0, np.zeros((2, SIZE))
    for step in range(56):
        prompts = sampler.draw(6 if step < 40 else 5)
        if sampler.stage == 1 and step == 40:
            means = observed[0] / observed[1]
            assert sampler.kept.tolist() == sorted(np.argsort(means, kind="stable")[:KEEP].tolist())
        sizes = budget.allocate(prompts, 0)
        assert set(sizes.tolist()) == {8 if step < 40 else 64}
        assert sampler.stage == (0 if step < 40 else 1)
        skills.rate = RATE * int(sizes.sum())
        feedback = skills.learn(prompts, int(sizes[0]))
        observed += pass_rates(feedback, SIZE)
        sampler.update(feedback)
        rollouts += int(sizes.sum())
    return skills, sampler, rollouts


def test_the_hard_prompts_end_above_one_stage_at_equal_rollouts() -> None:
    """The stage switches on schedule and keeps the lowest observed pass rates, asserted on the way."""
    skills, sampler, rollouts = staged()
    assert set(sampler.kept.tolist()) <= set(range(10, 30))
    one_stage, uniform = policy(), Uniform(DATA, UniformOptions())
    for _ in range(rollouts // 48):
        one_stage.learn(uniform.draw(6), 8)
    assert skills.success()[HARD].mean() > one_stage.success()[HARD].mean() + 0.1
