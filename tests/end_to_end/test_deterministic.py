"""Weights that follow from the graph alone: to the last bit, whatever the services of a run live through."""

import os
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.dataflow.cli import app
from headrace.dataflow.language.shipped import shipped
from tests.end_to_end.runs import ended, headrace, queue_pid, replica_pid, started, until
from tests.end_to_end.two_policies import ran

SMALL = (
    "deterministic=true",
    "staleness=0",
    "steps=3",
    "runtime=local",
    "prompts.samples_per_prompt=4",
    "learn.prompts_per_step=6",
    "learn.threads=1",
)
STEPS = 30
WHOLE = ("deterministic=true", "staleness=0", f"steps={STEPS}", "answers.replicas=2", "queue.durability=disk")


def weights(directory: Path, step: int) -> bytes:
    return (directory / f"checkpoints/step-{step:08}/model.safetensors").read_bytes()


@pytest.mark.slow
def test_how_many_replicas_answer_and_how_wide_they_decode_changes_no_bit(tmp_path: Path) -> None:
    text = shipped()["grpo_copy_cpu"].read_text()
    one = ran(tmp_path / "one", *SMALL, text=text)
    three = ran(tmp_path / "three", *SMALL, "answers.replicas=3", "answers.max_concurrent=7", text=text)
    assert (one.code, three.code) == (0, 0)
    assert weights(one.directory, 3) == weights(three.directory, 3)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    with started("grpo_copy_cpu", *WHOLE, directory=directory) as process:
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return weights(directory, STEPS)


@pytest.mark.nightly
@pytest.mark.parametrize("dies", ["learn/0", "queue", "prompts/0", "answers/0", "scores/0"])
def test_a_service_that_is_killed_changes_no_bit(tmp_path: Path, undisturbed: bytes, dies: str) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", *WHOLE, "learn.checkpoint_every=8", directory=directory) as process:
        until(process, lambda line: line.startswith("step 13/"))
        os.kill(queue_pid(directory) if dies == "queue" else replica_pid(directory, dies), signal.SIGKILL)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert weights(directory, STEPS) == undisturbed


@pytest.mark.nightly
@pytest.mark.parametrize("staleness", [0, 1])
def test_scaling_1_3_1_in_a_run_changes_neither_result_nor_bound(tmp_path: Path, staleness: int) -> None:
    """Replicas come and go while the run stands, so that it cannot end meanwhile."""
    steady, scaled, file = tmp_path / "steady", tmp_path / "scaled", tmp_path / "copy.yaml"
    file.write_text(shipped()["grpo_copy_cpu"].read_text())
    settings = [*SMALL, "steps=40", f"staleness={staleness}", f"deterministic={str(not staleness).lower()}"]

    def ask(*words: str) -> None:
        result = CliRunner().invoke(app, [*words, "--run", str(scaled)])
        assert result.exit_code == 0, (words, result.exception)

    with started(str(file), *settings, directory=scaled) as process:
        for step, replicas in ((3, 3), (9, 1)):
            until(process, lambda line, step=step: line.startswith(f"step {step}/"))
            ask("pause")
            ask("scale", f"answers={replicas}")
            ask("resume")
        run = ended(process, scaled)
    assert run.code == 0, run.err
    figures = run.summary
    assert (figures["staleness_violations"], figures["samples_lost"], figures["samples_duplicated"]) == (
        0,
        0,
        0,
    )
    if staleness == 0:
        assert headrace(str(file), *settings, directory=steady).code == 0
        assert weights(scaled, 40) == weights(steady, 40)
