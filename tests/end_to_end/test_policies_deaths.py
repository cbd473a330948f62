"""Processes of a run of several policies are stopped and killed: only what depends on them waits, and every
row is trained on once."""

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from headrace.services.trainer.checkpoint import newest
from headrace.transferqueue.disk.archive import read_archive
from tests.end_to_end.runs import ended, queue_pid, replica_pid, started, until, until_recorded
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
    run, policies = Run(directory=tmp_path / "run", code=0), ("slow", "below", "quick")
    endless = ("runtime=ray", "steps=100000", "l.fake.seconds_per_token=0.05", "no_progress_timeout_s=200")
    with started(written(tmp_path, THREE), *endless, directory=run.directory) as process:

        def steps(policy: str) -> int:
            return len(run.steps(policy))

        def until_made(policy: str, number: int) -> None:
            until_recorded(process, lambda: steps(policy) >= number)

        for policy in policies:
            until_made(policy, 1)
        pid = replica_pid(run.directory, "learn_slow/0")
        os.kill(pid, signal.SIGSTOP)
        until_made("quick", steps("quick") + 10)
        slow, quick = steps("slow"), steps("quick")
        until_made("quick", quick + 5)
        assert steps("slow") == slow
        assert steps("below") <= slow + 4, "of what was begun before"
        os.kill(pid, signal.SIGCONT)
        until_made("slow", slow + 8)
        until_made("below", slow + 6)
        process.send_signal(signal.SIGINT)
        assert ended(process, run.directory).code == 130
    for policy in policies:
        assert [step["step"] for step in run.steps(policy)] == list(range(steps(policy)))
    assert run.events("died") == run.events("failed") == [], "one that stands still is not dead"
    assert {table["lost"] for table in run.events("queue")} == {0}


@pytest.mark.slow
def test_in_memory_a_trainer_s_death_ends_the_run_with_its_cause_and_a_resume_completes_it(
    tmp_path: Path,
) -> None:
    """It has taken steps since its only checkpoint, which an interrupt left."""
    run = Run(directory=tmp_path / "run", code=0)
    endless = ("runtime=ray", "learn_slow.steps=100000", "learn_slow.checkpoint_every=100000")
    with started(written(tmp_path, APART), *endless, directory=run.directory) as process:
        until_recorded(process, lambda: len(run.steps("slow")) >= 2)
        process.send_signal(signal.SIGINT)
        assert ended(process, run.directory).code == 130
    before = len(run.steps("slow"))
    with started(str(run.directory)) as process:
        until_recorded(process, lambda: len(run.steps("slow")) >= before + 2)
        os.kill(replica_pid(run.directory, "learn_slow/0"), signal.SIGKILL)
        failed = ended(process, run.directory)
    assert failed.code == 1
    assert "service 'learn_slow' (trainer) has no replica left" in failed.err
    assert "the process of learn_slow/0 is gone" in failed.err
    assert "not started again: table 'a' is not rewindable, so its committed rows are gone" in failed.err
    found = newest(run.checkpoints("slow")).checkpoint
    assert found is not None and found.step == before
    with started(str(run.directory), f"learn_slow.steps={found.step + 2}") as process:
        resumed = ended(process, run.directory)
    assert resumed.code == 0, resumed.err
    assert [step["step"] for step in run.steps("slow")][-2:] == [found.step, found.step + 1]
    assert [step["step"] for step in run.steps("quick")] == list(range(6))
    assert [table["lost"] for table in run.events("queue")[-2:]] == [0, 0]


def killed_at_random(tmp_path: Path, seed: int, steps: int) -> Run:
    """A run of which a replica or the queue's controller is killed after about every eighth step."""
    directory, draws = tmp_path / "run", random.Random(seed)
    overrides = (*DISK, *EVERY, f"steps={steps}", "answers.fake.seconds_per_token=0.01")
    with started(written(tmp_path, GRAPH), *overrides, directory=directory) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if " step " in line and draws.random() < 0.125:
                who = draws.choice(("queue", *REPLICAS))
                kill(queue_pid(directory) if who == "queue" else replica_pid(directory, f"{who}/0"))
        run = ended(process, directory)
    assert run.code == 0, run.err
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
        assert (told["lost"], told["duplicated"], told["violations"]) == (0, 0, 0)
        assert all(reason.startswith("passed over while task") for reason in told["dropped"])
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
        run = ended(process, directory)
    assert run.code == 0, run.err
    assert_every_row_once(Run(directory=directory, code=0), 12)
