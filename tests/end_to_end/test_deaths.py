"""Replicas are killed in the middle of a run: it ends as asked, nothing lost, nothing trained twice."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.runs import Ended, queue_pid, replica_pid, started, until

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


DISK_STEPS = 40
DISK = ("queue.durability=disk", "staleness=0", f"steps={DISK_STEPS}", "learn.checkpoint_every=20")


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["learn/0", "queue", "prompts/0", "answers/0"])
def test_a_run_on_a_queue_on_disk_outlives_every_service_of_it(tmp_path: Path, dies: str) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", *DISK, directory=directory) as process:
        until(process, lambda line: line.startswith("step 26/"))
        os.kill(queue_pid(directory) if dies == "queue" else replica_pid(directory, dies), signal.SIGKILL)
        _, err = process.communicate(timeout=240)
    ended = Ended(code=process.returncode, out="", err=err, directory=directory)
    assert ended.code == 0, err
    assert_whole(ended)
    assert bool(again(ended.steps)) == (dies == "learn/0")


@pytest.mark.slow
def test_a_launcher_killed_on_a_queue_on_disk_costs_no_sample_and_no_rollout(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", *DISK, directory=directory) as process:
        until(process, lambda line: line.startswith("step 26/"))
    with started(str(directory)) as process:
        _, err = process.communicate(timeout=240)
    ended = Ended(code=process.returncode, out="", err=err, directory=directory)
    assert ended.code == 0, err
    assert_whole(ended)
    assert again(ended.steps)


def assert_whole(ended: Ended) -> None:
    """Every sample once, and no step that was taken again came out other than before."""
    summary = ended.summary
    assert (summary["steps"], summary["samples_trained"]) == (DISK_STEPS, DISK_STEPS * 256)
    assert (summary["samples_lost"], summary["samples_duplicated"]) == (0, 0)
    (*_, table) = [event for event in ended.events if event["event"] == "queue"]
    assert (table["trained"], table["dropped"], table["violations"]) == (DISK_STEPS * 256, {}, 0)
    assert [event for event in ended.events if event["event"] == "new_timeline"] == []


def again(steps: list[dict[str, Any]]) -> set[int]:
    """Steps that were taken twice, each with the same gradient to the last bit."""
    norms: dict[int, set[float]] = {}
    counts = Counter(step["step"] for step in steps)
    for step in steps:
        norms.setdefault(step["step"], set()).add(step["actor/grad_norm"])
    assert [step for step, found in norms.items() if len(found) > 1] == []
    return {step for step, count in counts.items() if count > 1}
