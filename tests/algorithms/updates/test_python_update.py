"""A schedule of the user's own, found by its path and held to what was declared of it."""

from pathlib import Path

import numpy as np
import pytest

from headrace.algorithms.updates import PythonUpdate

CODE = """
import numpy as np

class Halves:
    def __init__(self, *, last_first: bool = False) -> None:
        self.order = -1 if last_first else 1

    def plan(self, batch, groups, *, seed):
        return np.array_split(np.arange(len(groups)), 2)[:: self.order]
"""


def update(tmp_path: Path, *, updates: int) -> PythonUpdate:
    (tmp_path / "mine.py").write_text(CODE)
    path = f"{tmp_path / 'mine.py'}:Halves"
    return PythonUpdate(path=path, options={"last_first": True}, updates_per_batch=updates)


def test_a_class_by_path_plans_the_optimizer_steps(tmp_path: Path) -> None:
    schedule = update(tmp_path, updates=2)
    assert not schedule.streams
    steps = schedule.plan(0, np.array([7, 7, 8, 8]), seed=0)
    assert [step.tolist() for step in steps] == [[2, 3], [0, 1]]


def test_another_number_of_steps_than_declared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Halves planned 2 optimizer steps of batch 5; .* says 3"):
        update(tmp_path, updates=3).plan(5, np.array([7, 8]), seed=0)
