"""Every algorithm by its name, with its published setting, learns to copy through the real engine."""

from pathlib import Path

import pytest

from headrace.algorithms.registry import ALGORITHMS
from tests.end_to_end.copying import GRAPH, Course, copying

BY_REWARD = (
    *("grpo", "dr_grpo", "dapo", "gspo", "gspo_token", "ppo", "reinforce_pp", "rloo", "pacs", "rover", "sao"),
    *("decoupled_ppo", "tis", "icepop", "cispo", "rapid", "topr", "m2po"),
)
ELSEWHERE = ("grpo", "ppo", "sao")
"""They learn in `test_learning.py`, `test_policies_learn.py` and `test_sao.py` as well."""
STALE = ("decoupled_ppo", "tis", "icepop", "cispo", "rapid", "topr", "m2po")
"""Those made for samples of older policies get them; the others' runs are the same each time."""
TAUGHT = (("opd", 1), ("atod", 2))
"""With the answers that each prompt gets: only ATOD, which ends as GRPO, compares them."""

TAUGHT_GRAPH = GRAPH.replace("[answers, scores]", "[answers, scores, teacher]").replace(
    "nodes:\n", "nodes:\n  teacher: {kind: teacher, inputs: [answers], policy: master, threads: 1}\n"
)
SHOWN = (
    *("learn.algorithm=sft", "steps=30", "actor.optimizer.lr=2.0e-3"),
    *("answers.engine=fake", "answers.fake={answer: echo}", "answers.max_new_tokens=3"),
    *("prompts.samples_per_prompt=1", "learn.prompts_per_step=64"),
)
"""The scripted engine gives right answers, end token and all, and the policy learns from those."""


def test_every_preset_is_among_these() -> None:
    """But for `value`, which trains no policy that answers."""
    assert {*BY_REWARD, *dict(TAUGHT), "sft", "value"} == set(ALGORITHMS)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.nightly if kind in ELSEWHERE else pytest.mark.slow)
        for kind in BY_REWARD
    ],
)
def test_a_preset_learns_to_copy_from_rewards(tmp_path: Path, kind: str) -> None:
    staleness = 1 if kind in STALE else 0
    course = copying(tmp_path / "run", f"learn.algorithm={kind}", f"staleness={staleness}")
    assert course.first("reward/exact") < 0.15
    assert course.last("reward/exact") > 0.3
    assert course.last("reward/mean") > course.first("reward/mean") + 0.3
    assert all(step["staleness/max"] <= staleness for step in course.steps)
    assert all(step["actor/skipped"] == 0.0 for step in course.steps)


BEGUN = 10
"""Step of the imitation after which its model is the student: one that has begun to copy."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A model that `sft` taught to copy; its learning is judged here, for all who learn from it."""
    course = copying(
        tmp_path_factory.mktemp("shown") / "run",
        *SHOWN,
        f"learn.checkpoint_every={BEGUN}",
        "learn.keep_checkpoints=3",
    )
    assert course.first("actor/pg_loss") > 1.0
    assert course.last("actor/pg_loss") < 0.1
    return course


@pytest.mark.slow
def test_sft_learns_the_answers_that_it_is_shown(shown: Course) -> None:
    assert (shown.checkpoint() / "model.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "answers"), TAUGHT)
def test_a_preset_learns_to_copy_from_a_teacher(
    tmp_path: Path, shown: Course, kind: str, answers: int
) -> None:
    course = copying(
        tmp_path / "run",
        f"policies.master={{model: {shown.checkpoint()}}}",
        f"policies.actor.model={shown.checkpoint(BEGUN)}",
        f"learn.algorithm={kind}",
        f"prompts.samples_per_prompt={answers}",
        "learn.prompts_per_step=128",
        *("steps=40", "answers.max_new_tokens=3", "answers.temperature=1.0"),
        "scores.verifier.exact_weight=0.5",
        text=TAUGHT_GRAPH,
    )
    assert course.first("reward/exact") < 0.5
    assert course.last("reward/exact") > course.first("reward/exact") + 0.25
