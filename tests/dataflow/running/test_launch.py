"""Whole launches in this process, with the scripted engine, and of the command line where signals matter."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import RunDir, RunDirError, read_jsonl
from headrace.dataflow.record.tracing.traced import traced
from headrace.dataflow.running.launch import launch
from headrace.dataflow.running.locks import LOCK, held
from headrace.dataflow.running.shared_memory import root
from headrace.services.data_position import DataPosition
from headrace.services.trainer.checkpoint import newest
from tests.end_to_end.runs import OF_RUN, processes, started, until

GRAPH = """\
name: copy
steps: 3
runtime: local
no_progress_timeout_s: 120
max_restarts: 1
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: {kind: copy, size: 1000}, samples_per_prompt: 2, threads: 1}
  answers: {kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 5, threads: 1}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 2}
"""
Launched = Callable[..., int]


@pytest.fixture
def launched(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Launched:
    """Launches the graph with overrides into tmp_path/run, and checks that it leaves no shared memory."""
    monkeypatch.setattr("headrace.dataflow.running.supervisor.BACKOFF_FIRST_S", 0.0)

    def run(*overrides: str, text: str = GRAPH, resume: bool = False) -> int:
        spec, run_dir = parse(text, overrides=overrides).spec, tmp_path / "run"
        code = launch(spec, output=None if resume else run_dir, resume=run_dir if resume else None)
        assert list(shared.iterdir()) == []
        return code

    return run


def events(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    return [e for e in read_jsonl(tmp_path / "run" / "events.jsonl").records if e["event"] == kind]


def steps(tmp_path: Path) -> list[int]:
    lines = read_jsonl(tmp_path / "run" / "metrics.jsonl").records
    return [line["step"] for line in lines if "step" in line]


def test_a_run_completes_and_its_directory_holds_everything(
    tmp_path: Path, launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched() == 0
    run = RunDir.open(tmp_path / "run")
    assert steps(tmp_path) == [0, 1, 2]
    found = newest(run.checkpoints).checkpoint
    assert found is not None and found.step == 3
    for path in (run.graph, run.plan, run.summary, run.report):
        assert path.is_file()
    (ended,) = events(tmp_path, "run_ended")
    assert (ended["status"], ended["cause"]) == ("completed", "")
    (table,) = events(tmp_path, "queue")
    assert (table["trained"], table["duplicated"], table["lost"], table["violations"]) == (12, 0, 0, 0)
    assert {e["source"] for e in events(tmp_path, "state")} == {
        "prompts/0",
        "answers/0",
        "scores/0",
        "learn/0",
    }
    assert traced(run.path, most=0).samples == 12
    out = capsys.readouterr()
    assert "completed: 3 steps" in out.out and "Writing model shards" not in out.err


def test_a_rollout_that_raises_on_every_prompt_ends_the_run_with_its_name_and_cause(
    tmp_path: Path, launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    """A01."""
    assert launched("answers.fake.fail_always=true") == 1
    said = capsys.readouterr().err
    assert "headrace: the run failed: service 'answers' (rollout) has no replica left" in said
    assert "RuntimeError: fake engine: call" in said and "its log:" in said
    (ended,) = events(tmp_path, "run_ended")
    assert ended["status"] == "failed" and "fake engine" in ended["cause"]
    assert "RuntimeError: fake engine" in (tmp_path / "run" / "logs" / "answers-0.log").read_text()


@pytest.mark.slow
def test_a_rollout_that_hangs_ends_the_run_at_the_deadline_with_who_owes_what(
    launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched("answers.fake.hang=true", "no_progress_timeout_s=4") == 1
    said = capsys.readouterr().err
    assert "learn/0: WaitTimeout" in said
    assert "rows lack 'response_ids', owed by task 'answers'" in said


def test_a_poison_prompt_is_quarantined_the_step_finishes_and_a_resume_does_not_ask_it(
    tmp_path: Path, launched: Launched
) -> None:
    """A03."""
    assert launched("answers.fake.fail_uids=[0]", "prompts.shuffle=false") == 0
    (table,) = events(tmp_path, "queue")
    assert table["quarantined"] == 2 and table["trained"] == 12 and table["lost"] == 0
    assert all("sample 0 fails, as scripted" in reason for reason in table["quarantine"].values())
    assert steps(tmp_path) == [0, 1, 2]
    found = newest(tmp_path / "run" / "checkpoints").checkpoint
    assert found is not None
    position = found.values["data_position"]
    assert position["next"] >= 1 and 0 not in position["done"]
    assert launched("answers.fake.fail_uids=[0]", "prompts.shuffle=false", "steps=4", resume=True) == 0
    assert events(tmp_path, "queue")[-1]["quarantined"] == 0


def test_at_staleness_0_weights_that_load_slowly_are_waited_for_and_nothing_is_thrown_away(
    tmp_path: Path, launched: Launched
) -> None:
    """A04: a version takes longer to load than the next prompt to be asked for."""
    assert launched("answers.fake.load_seconds=0.1", "staleness=0", "steps=5") == 0
    (table,) = events(tmp_path, "queue")
    assert (table["trained"], table["dropped"], table["violations"]) == (20, {}, 0)
    assert table["staleness_trained"] == {"0": 20}
    assert steps(tmp_path) == [0, 1, 2, 3, 4]


def test_a_run_that_goes_on_at_the_end_of_an_epoch_trains_on_the_next(
    tmp_path: Path, launched: Launched
) -> None:
    """A07: four prompts are two steps; the checkpoint is of step 2, and two more are asked for."""
    data = "prompts.dataset={kind: copy, size: 4}"
    assert launched(data, "steps=2") == 0
    assert launched(data, "steps=4", resume=True) == 0
    assert steps(tmp_path) == [0, 1, 2, 3]
    assert [event["first_step"] for event in events(tmp_path, "run_started")] == [0, 2]
    found = newest(tmp_path / "run" / "checkpoints").checkpoint
    assert found is not None and found.step == 4


def test_a_reference_is_scored_against_and_enters_the_loss(tmp_path: Path, launched: Launched) -> None:
    text = GRAPH.replace("algorithm: grpo", "algorithm: {kind: grpo, kl_coef: 0.05}").replace(
        "inputs: [answers, scores], policy: actor", "inputs: [answers, scores, first], policy: actor"
    )
    text += "  first: {kind: reference, inputs: [answers], policy: actor, threads: 1}\n"
    assert launched(text=text) == 0
    lines = [x for x in read_jsonl(tmp_path / "run" / "metrics.jsonl").records if "step" in x]
    assert abs(lines[0]["kl/ref_k1"]) < 1e-6
    assert all("kl/ref_k3" in line for line in lines)
    assert {e["replica"] for e in events(tmp_path, "started")} == {
        *("answers/0", "first/0", "learn/0", "prompts/0", "scores/0")
    }


def test_data_that_ends_before_the_steps_is_an_error_with_the_way_out(
    tmp_path: Path, launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched("prompts.dataset.size=5", "prompts.epochs=1") == 1
    assert "step 2 of 3 lacks 1 prompts and the data has ended" in capsys.readouterr().err
    assert steps(tmp_path) == [0, 1]
    found = newest(tmp_path / "run" / "checkpoints").checkpoint
    assert found is not None and found.step == 2


def test_a_service_that_cannot_be_set_up_fails_the_run(
    launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GRAPH.replace("verifier: copy", 'verifier: {kind: python, function: "nowhere:score"}')
    assert launched(text=text) == 1
    said = capsys.readouterr().err
    assert "service 'scores' (reward) has no replica left" in said and "cannot import 'nowhere'" in said


def test_a_verifier_given_by_a_relative_path_prints_into_the_log_of_its_replica(
    tmp_path: Path, launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def score(response, example):\n    print('looked at it')\n    return 1.0\n")
    text = GRAPH.replace("verifier: copy", 'verifier: {kind: python, function: "mine.py:score"}')
    assert launched("steps=1", text=text) == 0
    assert "looked at it" in (tmp_path / "run" / "logs" / "scores-0.log").read_text()
    assert f"{tmp_path}/mine.py:score" in (tmp_path / "run" / "graph.yaml").read_text()


def test_a_queue_that_cannot_start_fails_the_run(
    tmp_path: Path, launched: Launched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headrace.dataflow.running.runtimes.local.QUEUE_ADDRESS", "tcp://10.0.0.1:1")
    assert launched() == 1
    assert "the run failed: Refused: address 'tcp://10.0.0.1:1' is not local" in capsys.readouterr().err
    assert [e["status"] for e in events(tmp_path, "run_ended")] == ["failed"]


def test_a_directory_that_another_launch_is_using_is_refused(tmp_path: Path, launched: Launched) -> None:
    assert launched("steps=1") == 0
    with held(tmp_path / "run"), pytest.raises(RunDirError, match="is in use by another launch"):
        launched("steps=2", resume=True)


def test_ray_that_cannot_be_had_fails_the_run_with_the_way_out(
    launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched("runtime=ray", "ray_address=127.0.0.1:1") == 1
    said = capsys.readouterr().err
    assert "ray: the cluster at 127.0.0.1:1 cannot be had: ConnectionRefusedError" in said
    assert "run with runtime=local" in said


@pytest.mark.slow
def test_under_ray_every_replica_is_a_process_and_none_is_left(
    tmp_path: Path, launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OF_RUN, str(tmp_path))
    assert launched("runtime=ray", "answers.replicas=2", "prompts.replicas=1") == 0
    pids = {e["replica"]: e["pid"] for e in events(tmp_path, "started")}
    assert sorted(pids) == ["answers/0", "answers/1", "learn/0", "prompts/0", "scores/0"]
    assert len({*pids.values(), os.getpid()}) == 6
    assert processes(tmp_path) == []
    assert {path.name for path in (tmp_path / "run" / "logs").iterdir()} >= {"queue.log", "answers-1.log"}
    (table,) = events(tmp_path, "queue")
    assert (table["trained"], table["lost"]) == (12, 0)


@pytest.mark.slow
def test_a_replica_that_gives_up_under_ray_leaves_no_process_and_says_why(
    tmp_path: Path,
    launched: Launched,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(OF_RUN, str(tmp_path))
    assert launched("runtime=ray", "answers.fake.fail_always=true") == 1
    said = capsys.readouterr().err
    assert (
        "answers/0: ReplicaFailed: it is not ready" in said and "<- RuntimeError: fake engine: call" in said
    )
    assert events(tmp_path, "started")
    assert processes(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_directory_that_a_resume_goes_on_from(
    tmp_path: Path, launched: Launched, number: int
) -> None:
    (tmp_path / "g.yaml").write_text(GRAPH)
    overrides = ("steps=100000", "learn.checkpoint_every=0", "answers.fake.seconds_per_token=0.001")
    with started(str(tmp_path / "g.yaml"), *overrides, directory=tmp_path / "run") as process:
        until(process, lambda line: line.startswith("step "))
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "interrupted: " in out and "go on from the newest checkpoint with: headrace run" in err
    assert "Traceback" not in err
    found = newest(tmp_path / "run" / "checkpoints").checkpoint
    assert found is not None and found.step == len(steps(tmp_path)) >= 1
    assert launched(f"steps={found.step + 2}", resume=True) == 0
    assert steps(tmp_path) == list(range(found.step + 2))
    assert [e["first_step"] for e in events(tmp_path, "run_started")] == [0, found.step]
    assert [e["status"] for e in events(tmp_path, "run_ended")] == ["interrupted", "completed"]


@pytest.mark.slow
def test_two_signals_cut_a_run_short(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(GRAPH)
    with started(str(tmp_path / "g.yaml"), "steps=100000", directory=tmp_path / "run") as process:
        until(process, lambda line: line.startswith("step "))
        held_files = [Path(file.path) for file in psutil.Process(process.pid).open_files()]
        (shared,) = {path.parent for path in held_files if path.parent.parent == root() and path.name == LOCK}
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not shared.exists()
    (ended,) = events(tmp_path, "run_ended")
    assert (ended["status"], ended["cause"]) == ("interrupted", "cut short")


def test_a_run_whose_rows_are_on_disk_goes_on_with_every_prompt_once(
    tmp_path: Path, launched: Launched
) -> None:
    disk = "queue.durability=disk"
    assert launched(disk, "steps=3") == 0
    assert launched(disk, "steps=6", resume=True) == 0
    assert steps(tmp_path) == [0, 1, 2, 3, 4, 5]
    first, last = events(tmp_path, "queue")
    assert (first["trained"], last["trained"]) == (12, 24)
    assert (last["dropped"], last["duplicated"], last["lost"], last["violations"]) == ({}, 0, 0, 0)
    position = DataPosition.of_checkpoint(checkpoint(tmp_path))
    assert (position.next, position.done) == (12, frozenset())


def test_steps_after_the_checkpoint_are_trained_again_on_the_same_rows_to_the_same_weights(
    tmp_path: Path, launched: Launched
) -> None:
    disk = ("queue.durability=disk", "learn.checkpoint_every=2", "learn.keep_checkpoints=3")
    assert launched(*disk, "steps=5") == 0
    weights = (checkpoint(tmp_path) / "model.safetensors").read_bytes()
    shutil.rmtree(checkpoint(tmp_path))
    assert checkpoint(tmp_path).name == "step-00000004"
    assert launched(*disk, "steps=5", resume=True) == 0
    assert (checkpoint(tmp_path) / "model.safetensors").read_bytes() == weights
    assert steps(tmp_path) == [0, 1, 2, 3, 4, 4]
    (*_, last) = events(tmp_path, "queue")
    assert (last["trained"], last["dropped"], last["duplicated"], last["lost"]) == (20, {}, 0, 0)


def test_a_run_whose_rows_are_on_disk_is_not_gone_on_with_past_them(
    tmp_path: Path, launched: Launched
) -> None:
    assert launched("queue.durability=disk") == 0
    with pytest.raises(RunDirError, match=r"rows are on disk in .*/queue: go on with queue\.durability=disk"):
        launched(resume=True)


def test_a_run_whose_checkpoints_are_gone_goes_on_from_its_store(tmp_path: Path, launched: Launched) -> None:
    store = f"learn.checkpoint_store=file://{tmp_path}/store"
    assert launched(store, "steps=2") == 0
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    assert launched(store, "steps=3", resume=True) == 0
    (fetched,) = events(tmp_path, "checkpoint_fetched")
    assert (fetched["step"], steps(tmp_path)) == (2, [0, 1, 2])
    assert [each["path"] for each in events(tmp_path, "checkpoint_copied")] == [
        "step-00000002",
        "step-00000003",
    ]


def test_rows_that_lie_with_nodes_of_a_cluster_are_not_gone_on_without(
    tmp_path: Path, launched: Launched
) -> None:
    disk = "queue.durability=disk"
    assert launched(disk, "steps=1") == 0
    (tmp_path / "run" / "queue" / "nodes" / "b-1").mkdir(parents=True)
    with pytest.raises(RunDirError, match=r"rows of this run lie with nodes of a cluster, in .*/queue/nodes"):
        launched(disk, resume=True)


def checkpoint(tmp_path: Path) -> Path:
    found = newest(RunDir.open(tmp_path / "run").checkpoints).checkpoint
    assert found is not None
    return found.path
