"""Processes of a run of several policies are stopped and killed: only what depends on them waits, and every
row is trained on once."""

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from headrace.transferqueue.disk.archive import read_archive
from tests.end_to_end.runs import newest_queue_pid, replica_pid, started, until
from tests.end_to_end.two_policies import APART, GRAPH, ROWS, TABLES, THREE, Run

DISK = ("runtime=ray", "queue={durability: disk, archive: true}", "max_restarts=20")
EVERY = (
    *("learn.checkpoint_every=5", "learn.keep_checkpoints=1"),
    *("learn_judging.checkpoint_every=3", "learn_judging.keep_checkpoints=1"),
)
REPLICAS = (
    "answers",
    "judged",
    "judgements",
    "judging",
    "learn_judging",
    "trust",
    "scores",
    "learn",
    "prompts",
)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "graph.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.slow
def test_a_trainer_that_stands_still_holds_up_those_alone_that_need_it(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    steps = {"slow": 6, "below": 6, "quick": 30}
    longer = (f"learn_quick.steps={steps['quick']}", "l.fake.seconds_per_token=0.05")
    with started(written(tmp_path, THREE), "runtime=ray", *longer, directory=directory) as process:
        line = until(process, lambda line: line.startswith(("slow  step 1/", "quick  step 30/")))
        assert line.startswith("slow"), "the quick one is not to be through by then"
        pid = replica_pid(directory, "learn_slow/0")
        os.kill(pid, signal.SIGSTOP)
        until(process, lambda line: line.startswith("quick  step 30/"))
        stopped = Run(directory=directory, code=0)
        assert len(stopped.steps("slow")) < 6 and len(stopped.steps("below")) < 6
        os.kill(pid, signal.SIGCONT)
        _, err = process.communicate(timeout=120)
    run = Run(directory=directory, code=process.returncode)
    assert run.code == 0, err
    for policy, number in steps.items():
        assert [step["step"] for step in run.steps(policy)] == list(range(number))
    given_up = [event for event in run.events("died") if event["replica"].startswith("learn_")]
    assert given_up == [], "one that stands still is not dead"
    assert {table["lost"] for table in run.events("queue")} == {0}


@pytest.mark.slow
def test_in_memory_a_trainer_s_death_ends_the_run_with_its_cause_and_a_resume_completes_it(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "run"
    with started(written(tmp_path, APART), "runtime=ray", directory=directory) as process:
        until(process, lambda line: line.startswith("slow  step 2/"))
        os.kill(replica_pid(directory, "learn_slow/0"), signal.SIGKILL)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "service 'learn_slow' (trainer) has no replica left" in err
    assert "the process of learn_slow/0 is gone" in err
    assert "not started again: table 'a' is not rewindable, so its committed rows are gone" in err
    with started(str(directory)) as process:
        _, err = process.communicate(timeout=120)
    run = Run(directory=directory, code=process.returncode)
    assert run.code == 0, err
    for policy in ("slow", "quick"):
        assert {step["step"] for step in run.steps(policy)} == set(range(6))


def killed_at_random(tmp_path: Path, seed: int, steps: int) -> Run:
    """A run of which a replica or the queue's controller is killed after about every eighth step."""
    directory, draws = tmp_path / "run", random.Random(seed)
    overrides = (*DISK, *EVERY, f"steps={steps}", "answers.fake.seconds_per_token=0.01")
    with started(written(tmp_path, GRAPH), *overrides, directory=directory) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if " step " in line and draws.random() < 0.125:
                who = draws.choice(("queue", *REPLICAS))
                kill(newest_queue_pid(directory) if who == "queue" else replica_pid(directory, f"{who}/0"))
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return Run(directory=directory, code=0)


def kill(pid: int) -> None:
    """One that is being replaced is gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def assert_every_row_once(run: Run, steps: int) -> None:
    """In the figures of the queue, in its archive, and in the records of what was taken again."""
    assert run.events("new_timeline") == []
    for policy, table in TABLES.items():
        told = run.table(policy)
        assert (told["steps"], told["trained"]) == (steps, steps * ROWS[policy])
        assert (told["lost"], told["duplicated"], told["violations"], told["dropped"]) == (0, 0, 0, {})
        left = read_archive(run.directory / "queue", table).select(["uid", "step"]).to_pylist()
        trained = [row for row in left if row["step"] >= 0]
        assert Counter(row["step"] for row in trained) == dict.fromkeys(range(steps), ROWS[policy])
        assert len({row["uid"] for row in left}) == len(left)
        norms = {(step["step"], step.get("actor/grad_norm")) for step in run.steps(policy)}
        assert len(norms) == len({step for step, _ in norms})


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_killed_no_row_is_trained_on_twice_and_none_is_lost(tmp_path: Path, seed: int) -> None:
    assert_every_row_once(killed_at_random(tmp_path, seed, 20), 20)


@pytest.mark.slow
def test_a_launcher_that_is_killed_loses_nothing_of_any_policy(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with started(written(tmp_path, GRAPH), *DISK, *EVERY, "steps=12", directory=directory) as process:
        until(process, lambda line: line.startswith("solver  step 7/"))
    with started(str(directory)) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert_every_row_once(Run(directory=directory, code=0), 12)
