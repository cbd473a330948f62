"""A credit of the user's own under our losses: found by its path, held to what was declared of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.algorithms.base import GroupScores
from headrace.algorithms.options import GrpoOptions
from headrace.algorithms.options.credit import PythonCredit
from headrace.algorithms.registry import build

CODE = """
import numpy as np

class Tenth:
    needs_full_batch = True

    def __init__(self, *, times: float) -> None:
        self.times = times

    def needs(self):
        return ("example",)

    def __call__(self, scores):
        bonus = np.array([entry["bonus"] for entry in scores.column("example")])
        return self.times * scores.rewards + bonus
"""
SCORES = GroupScores(
    groups=np.array([0, 0, 1]),
    rewards=np.array([1.0, 2.0, 3.0]),
    lengths=np.array([1, 1, 1]),
    columns={
        "example": [{"bonus": 5.0}, {"bonus": 6.0}, {"bonus": 7.0}],
        "logprobs": [np.array([-1.0])] * 3,
        "reference_logprobs": [np.array([-1.5])] * 3,
        "loss_mask": [np.ones(1)] * 3,
    },
)


def credit(tmp_path: Path, **declared: Any) -> PythonCredit:
    (tmp_path / "mine.py").write_text(CODE)
    path = f"{tmp_path / 'mine.py'}:Tenth"
    return PythonCredit(path=path, options={"times": 0.1}, **declared)


def test_a_class_by_path_credits_under_a_loss_of_ours(tmp_path: Path) -> None:
    options = GrpoOptions(advantage=credit(tmp_path, reads=("example",), over_batch=True))
    assert options.needs() == ("example",) and not options.compares_group
    algorithm = build(options, max_new_tokens=1)
    assert algorithm.needs_full_batch
    np.testing.assert_allclose(algorithm.advantages(SCORES), [5.1, 6.2, 7.3], rtol=0, atol=1e-12)


def test_a_divergence_in_the_reward_is_taken_off_before_it(tmp_path: Path) -> None:
    own = credit(tmp_path, reads=("example",), over_batch=True)
    options = GrpoOptions(advantage=own, kl_coef=0.2, kl_in="reward", kl_estimator="k1")
    assert options.needs() == ("reference_logprobs", "example")
    algorithm = build(options, max_new_tokens=1)
    np.testing.assert_allclose(algorithm.advantages(SCORES), [5.09, 6.19, 7.29], rtol=0, atol=1e-12)


@pytest.mark.parametrize("declared", [{"reads": ("example",)}, {"over_batch": True}])
def test_what_was_declared_otherwise_is_refused(tmp_path: Path, declared: dict[str, Any]) -> None:
    options = GrpoOptions(advantage=credit(tmp_path, **declared))
    with pytest.raises(ValueError, match=r"needs .'example'. and has needs_full_batch True; write the same"):
        build(options, max_new_tokens=1)
