"""Replicas are killed in the middle of a run: it ends as asked, nothing lost, nothing trained twice."""

import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.runs import Ended, headrace, queue_pid, replica_pid, started, until

STEPS = 24


@pytest.mark.slow
@pytest.mark.parametrize("replica", ["answers/0", "answers/1", "scores/0"])
def test_a_killed_replica_costs_no_sample(tmp_path: Path, replica: str) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", f"steps={STEPS}", "answers.replicas=2", directory=directory) as process:
        until(process, lambda line: line.startswith("step 5/"))
        os.kill(replica_pid(directory, replica), signal.SIGKILL)
        out, err = process.communicate(timeout=240)
    ended = Ended(code=process.returncode, out=out, err=err, directory=directory)
    assert ended.code == 0, err
    died = [event for event in ended.events if event["event"] == "died"]
    assert [event["replica"] for event in died] == [replica]
    assert len([e for e in ended.events if e["event"] == "started" and e["replica"] == replica]) == 2
    summary = ended.summary
    assert summary["steps"] == STEPS
    assert summary["samples_trained"] == STEPS * 256
    assert (summary["samples_lost"], summary["samples_duplicated"]) == (0, 0)
    assert summary["staleness_violations"] == 0


@pytest.mark.slow
def test_a_rollout_that_raises_on_every_prompt_ends_the_run_with_its_cause(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started(
        "grpo_copy_cpu",
        "answers.engine=fake",
        "answers.fake={fail_always: true}",
        "no_progress_timeout_s=120",
        directory=directory,
    ) as process:
        _, err = process.communicate(timeout=110)
    assert process.returncode == 1
    assert "service 'answers' (rollout) has no replica left" in err
    assert "RuntimeError: fake engine: call" in err and "fails, as scripted" in err


@pytest.mark.slow
def test_nothing_is_left_of_a_run(tmp_path: Path) -> None:
    before = left_behind()
    with started("grpo_copy_cpu", "steps=2", directory=tmp_path / "run") as process:
        _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert left_behind() - before == set()


def left_behind() -> set[str]:
    folders = {str(path) for path in Path("/dev/shm").glob("headrace-*")}
    scratch = {str(path) for path in Path("/tmp").glob("headrace-ray-*")}
    processes = {
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if any(word in _command(path) for word in ("raylet", "gcs_server", "ray::"))
    }
    return folders | scratch | processes


def _command(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


DISK = ("queue.durability=disk", "staleness=0", f"steps={STEPS}", "learn.checkpoint_every=4", "seed=3")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Final weights of the durable run without a death."""
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    ended = headrace("grpo_copy_cpu", *DISK, directory=directory)
    assert ended.code == 0, ended.err
    return weights(directory)


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["learn/0", "queue", "prompts/0", "answers/0"])
def test_a_service_killed_on_a_queue_on_disk_leaves_the_same_weights(
    tmp_path: Path, undisturbed: bytes, dies: str
) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", *DISK, directory=directory) as process:
        until(process, lambda line: line.startswith("step 7/"))
        os.kill(queue_pid(directory) if dies == "queue" else replica_pid(directory, dies), signal.SIGKILL)
        _, err = process.communicate(timeout=240)
    ended = Ended(code=process.returncode, out="", err=err, directory=directory)
    assert ended.code == 0, err
    summary = ended.summary
    assert (summary["steps"], summary["samples_trained"]) == (STEPS, STEPS * 256)
    assert (summary["samples_lost"], summary["samples_duplicated"]) == (0, 0)
    assert weights(directory) == undisturbed


@pytest.mark.slow
def test_a_launcher_killed_on_a_queue_on_disk_leaves_the_same_weights(
    tmp_path: Path, undisturbed: bytes
) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", *DISK, directory=directory) as process:
        until(process, lambda line: line.startswith("step 7/"))
    with started(str(directory)) as process:
        _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert weights(directory) == undisturbed


def weights(directory: Path) -> bytes:
    return (directory / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors").read_bytes()
