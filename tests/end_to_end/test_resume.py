"""A run that was stopped goes on from its newest checkpoint with the prompts that no step has used."""

import signal
from pathlib import Path

import pytest

from headrace.services.data_position import DataPosition
from headrace.services.trainer.checkpoint import newest
from tests.end_to_end.runs import Ended, started, until

STEPS = 30


@pytest.mark.slow
def test_ctrl_c_leaves_a_directory_that_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", f"steps={STEPS}", directory=directory) as process:
        until(process, lambda line: line.startswith("step 8/"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert f"headrace run {directory}" in err
    found = newest(directory / "checkpoints").checkpoint
    assert found is not None and 8 <= found.step < STEPS
    assert DataPosition.of_checkpoint(found.path).consumed == found.step * 32

    with started(str(directory)) as process:
        out, err = process.communicate(timeout=240)
    ended = Ended(code=process.returncode, out=out, err=err, directory=directory)
    assert ended.code == 0, err
    assert [step["step"] for step in ended.steps] == list(range(STEPS))
    assert ended.summary["status"] == "completed"
    assert ended.summary["samples_trained"] == STEPS * 256
    last = newest(directory / "checkpoints").checkpoint
    assert last is not None and DataPosition.of_checkpoint(last.path).consumed == STEPS * 32
