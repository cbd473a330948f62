"""The copy task is learned by the Megatron back end, from answers of either engine, by one key for each."""

import importlib.util
from pathlib import Path

import pytest

from tests.end_to_end.runs import headrace
from tests.end_to_end.test_learning import assert_learned


@pytest.mark.nightly
@pytest.mark.parametrize("staleness", [0.0, 1.0])
@pytest.mark.parametrize("engine", ["torch", "vllm"])
def test_the_quick_start_learns_with_megatron(tmp_path: Path, engine: str, staleness: float) -> None:
    if importlib.util.find_spec(engine) is None:
        pytest.skip("vllm is not installed; `make vllm` makes an environment with it")
    ended = headrace(
        "grpo_copy_cpu",
        "learn.backend=megatron",
        f"answers.engine={engine}",
        f"staleness={staleness:g}",
        "steps=300",
        directory=tmp_path / "run",
    )
    assert_learned(ended, staleness)
