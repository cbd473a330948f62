"""The copy task is learned at every staleness, within its bound, no sample lost or trained twice."""

import math
from pathlib import Path

import pytest

from tests.end_to_end.runs import Ended, headrace

EXACT = 0.3
"""Above 0.8 as a rule. One letter that settles on a wrong one costs a quarter of the words, and no two runs
above staleness 0 are the same: how stale samples are, and so how fast they teach, is up to the machine."""


def assert_learned(ended: Ended, staleness: float) -> None:
    assert ended.code == 0, ended.err
    summary = ended.summary
    assert summary["exact_first"] < 0.1
    assert summary["exact_last"] > EXACT
    for step in ended.steps:
        assert step["staleness/max"] <= math.ceil(staleness) if math.isfinite(staleness) else True
        assert step["staleness/violations"] == 0
    assert summary["staleness_violations"] == 0
    assert summary["samples_lost"] == 0
    assert summary["samples_duplicated"] == 0
    assert summary["samples_trained"] == summary["steps"] * 256


IN_CI = (1.0, math.inf)
"""At staleness 0 the engine takes the steps of a plain loop, and each algorithm learns: see
`test_matches_plain_loop.py` and `test_presets_learn.py`."""


@pytest.mark.parametrize(
    "staleness",
    [
        pytest.param(each, marks=pytest.mark.slow if each in IN_CI else pytest.mark.nightly)
        for each in (0.0, 0.5, 1.0, 2.0, math.inf)
    ],
)
def test_the_quick_start_learns_at_every_staleness(tmp_path: Path, staleness: float) -> None:
    assert_learned(
        headrace("grpo_copy_cpu", f"staleness={staleness:g}", "steps=300", directory=tmp_path / "run"),
        staleness,
    )
