"""A run that was stopped goes on from its newest checkpoint with the prompts that no step has used."""

import signal
from pathlib import Path

import pytest

from headrace.services.data_position import DataPosition
from headrace.services.trainer.checkpoint import newest
from tests.end_to_end.runs import ended, started, steps, until_recorded

FURTHER = 12
"""Steps that the second launch makes."""


@pytest.mark.slow
def test_ctrl_c_leaves_a_directory_that_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", "steps=100000", directory=directory) as process:
        until_recorded(process, lambda: len(steps(directory)) >= 8)
        process.send_signal(signal.SIGINT)
        first = ended(process, directory)
    assert first.code == 130, first.err
    assert f"headrace run {directory}" in first.err
    found = newest(directory / "checkpoints").checkpoint
    assert found is not None and found.step == len(first.steps) >= 8
    assert DataPosition.of_checkpoint(found.path).consumed == found.step * 32

    whole = found.step + FURTHER
    with started(str(directory), f"steps={whole}") as process:
        run = ended(process, directory)
    assert run.code == 0, run.err
    assert [step["step"] for step in run.steps] == list(range(whole))
    assert run.summary["status"] == "completed"
    assert run.summary["samples_trained"] == whole * 256
    last = newest(directory / "checkpoints").checkpoint
    assert last is not None and DataPosition.of_checkpoint(last.path).consumed == whole * 32
