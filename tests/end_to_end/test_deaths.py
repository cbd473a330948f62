"""Replicas are killed in the middle of a run: it ends as asked, nothing lost, nothing trained twice."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.dataflow.running.locks import is_orphan
from tests.end_to_end.runs import (
    Ended,
    ended,
    events,
    headrace,
    processes,
    queue_pid,
    replica_pid,
    started,
    steps,
    until,
    until_recorded,
)


def starts(directory: Path, replica: str) -> int:
    """How often it has come to the point where it serves."""
    return sum(e["source"] == replica and e["new"] == "ready" for e in events(directory, "state"))


@pytest.mark.slow
def test_killed_replicas_cost_no_sample(tmp_path: Path) -> None:
    """The next one is killed when the replacement of the last serves and some steps were made with it."""
    directory, killed = tmp_path / "run", ["answers/0", "answers/1", "scores/0"]
    with started("grpo_copy_cpu", "steps=100000", "answers.replicas=2", directory=directory) as process:
        for replica in killed:
            until_recorded(process, lambda name=replica: starts(directory, name) == 1)
            os.kill(replica_pid(directory, replica), signal.SIGKILL)
            until_recorded(process, lambda name=replica: starts(directory, name) == 2)
            made = len(steps(directory))
            until_recorded(process, lambda made=made: len(steps(directory)) >= made + 3)
        process.send_signal(signal.SIGINT)
        run = ended(process, directory)
    assert run.code == 130, run.err
    assert [event["replica"] for event in run.events if event["event"] == "died"] == killed
    assert [event["restarts"] for event in run.events if event["event"] == "started"].count(1) == 3
    assert [step["step"] for step in run.steps] == list(range(len(run.steps)))
    summary = run.summary
    assert summary["samples_trained"] == len(run.steps) * 256
    assert (summary["samples_lost"], summary["samples_duplicated"]) == (0, 0)
    assert summary["staleness_violations"] == 0


@pytest.mark.slow
def test_a_rollout_that_raises_on_every_prompt_ends_the_run_with_its_cause(tmp_path: Path) -> None:
    failing = ("answers.engine=fake", "answers.fake={fail_always: true}")
    run = headrace("grpo_copy_cpu", *failing, "no_progress_timeout_s=200", directory=tmp_path / "run")
    assert run.code == 1
    assert "service 'answers' (rollout) has no replica left" in run.err
    assert "RuntimeError: fake engine: call" in run.err and "fails, as scripted" in run.err


@pytest.mark.slow
def test_nothing_is_left_of_a_run(tmp_path: Path) -> None:
    directory, before = tmp_path / "run", folders()
    with started("grpo_copy_cpu", "steps=2", directory=directory) as process:
        until(process, lambda line: line.startswith("step 1/"))
        assert len(processes(directory)) > 5
        run = ended(process, directory)
    assert run.code == 0, run.err
    _, left = psutil.wait_procs(processes(directory), timeout=60.0)
    assert left == []
    assert [path for path in folders() - before if is_orphan(path)] == []


def folders() -> set[Path]:
    """Of all launches of this machine; one whose launcher lives is no orphan."""
    return {*Path("/dev/shm").glob("headrace-*"), *Path("/tmp").glob("headrace-ray-*")}


DISK_STEPS = 24
DISK = ("queue.durability=disk", "staleness=0", f"steps={DISK_STEPS}", "learn.checkpoint_every=10")


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["learn/0", "queue", "prompts/0", "answers/0"])
def test_a_run_on_a_queue_on_disk_outlives_every_service_of_it(tmp_path: Path, dies: str) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", *DISK, directory=directory) as process:
        until(process, lambda line: line.startswith("step 14/"))
        os.kill(queue_pid(directory) if dies == "queue" else replica_pid(directory, dies), signal.SIGKILL)
        run = ended(process, directory)
    assert_whole(run)
    assert bool(again(run.steps)) == (dies == "learn/0")


@pytest.mark.slow
def test_a_launcher_killed_on_a_queue_on_disk_costs_no_sample_and_no_rollout(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started("grpo_copy_cpu", *DISK, directory=directory) as process:
        until(process, lambda line: line.startswith("step 14/"))
    with started(str(directory)) as process:
        run = ended(process, directory)
    assert_whole(run)
    assert again(run.steps)


def assert_whole(run: Ended) -> None:
    """Every sample once, and no step that was taken again came out other than before."""
    assert run.code == 0, run.err
    summary = run.summary
    assert (summary["steps"], summary["samples_trained"]) == (DISK_STEPS, DISK_STEPS * 256)
    assert (summary["samples_lost"], summary["samples_duplicated"]) == (0, 0)
    (*_, table) = [event for event in run.events if event["event"] == "queue"]
    assert (table["trained"], table["dropped"], table["violations"]) == (DISK_STEPS * 256, {}, 0)
    assert [event for event in run.events if event["event"] == "new_timeline"] == []


def again(steps: list[dict[str, Any]]) -> set[int]:
    """Steps that were taken twice, each with the same gradient to the last bit."""
    norms: dict[int, set[float]] = {}
    counts = Counter(step["step"] for step in steps)
    for step in steps:
        norms.setdefault(step["step"], set()).add(step["actor/grad_norm"])
    assert [step for step, found in norms.items() if len(found) > 1] == []
    return {step for step, count in counts.items() if count > 1}
