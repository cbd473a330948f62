"""The copy task is learned from answers that vLLM makes, with one key of the graph set."""

import importlib.util
from pathlib import Path

import pytest

from tests.end_to_end.runs import headrace
from tests.end_to_end.test_learning import assert_learned


@pytest.mark.nightly
@pytest.mark.parametrize("staleness", [0.0, 1.0])
def test_the_quick_start_learns_with_vllm(tmp_path: Path, staleness: float) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed; `make vllm` makes an environment with it")
    ended = headrace(
        "grpo_copy_cpu",
        "answers.engine=vllm",
        f"staleness={staleness:g}",
        "steps=300",
        directory=tmp_path / "run",
    )
    assert_learned(ended, staleness)
