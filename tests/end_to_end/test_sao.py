"""SAO in a real asynchronous run: single answers, four steps ahead, a thousand steps."""

import math
from pathlib import Path

import pytest

from tests.end_to_end.copying import copying

STEPS, ANSWERS_PER_STEP, STALENESS = 1000, 16, 4


@pytest.mark.slow
def test_a_thousand_steps_of_single_answers_neither_diverge_nor_break_the_bound(tmp_path: Path) -> None:
    """The entropy bonus is the run's, not the preset's: without it, answers soon settle on few words."""
    course = copying(
        tmp_path / "run",
        "learn.algorithm={kind: sao, entropy_coef: 0.02}",
        f"staleness={STALENESS}",
        f"steps={STEPS}",
        "prompts.samples_per_prompt=1",
        f"learn.prompts_per_step={ANSWERS_PER_STEP}",
        "actor.optimizer.lr=5.0e-4",
    )
    steps = course.steps
    assert [step["samples/trained"] for step in steps] == [ANSWERS_PER_STEP] * STEPS
    for step in steps:
        assert all(math.isfinite(step[name]) for name in ("actor/loss", "actor/grad_norm", "critic/vf_loss"))
        assert step["actor/skipped"] == step["samples/lost"] == step["samples/duplicated"] == 0.0
        assert step["staleness/max"] <= STALENESS
        assert step["staleness/violations"] == 0.0
    assert max(step["staleness/max"] for step in steps) == STALENESS, "the run was asynchronous"
    assert sum(step["rs/masked_frac"] > 0 for step in steps) > STEPS / 10, "tokens were masked"
    exact = [step["reward/exact"] for step in steps]
    assert sum(exact[:20]) / 20 < 0.1
    assert max(sum(exact[i : i + 100]) / 100 for i in range(STEPS - 99)) > 0.3
