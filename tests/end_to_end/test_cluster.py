"""One run on several nodes: trainer here, rollouts there, rows and weights over the wire between them."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

from headrace.dataflow.cli import app
from headrace.dataflow.running.shared_memory import root, sweep
from tests.end_to_end.clusters import cluster
from tests.end_to_end.runs import (
    Ended,
    ended,
    events,
    headrace,
    replica_pid,
    started,
    steps,
    until,
    until_recorded,
)

GRAPH = """\
name: copy
steps: {steps}
runtime: ray
ray_address: "{address}"
no_progress_timeout_s: 240
policies:
  actor: {{model: tiny-copier}}
nodes:
  prompts: {{kind: source, dataset: {{kind: copy, size: 1000}}, samples_per_prompt: 2,
            resources: {{head: 1}}}}
  answers: {{kind: rollout, inputs: [prompts], policy: actor, engine: torch, max_new_tokens: 5, threads: 1,
            placement: spread, resources: {{side: 1}}}}
  scores: {{kind: reward, inputs: [answers], verifier: copy, resources: {{head: 1}}}}
  learn: {{kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 4,
          threads: 1, resources: {{head: 1}}}}
"""


def graph(folder: Path, nodes: Cluster, *, steps: int) -> str:
    file = folder / "graph.yaml"
    file.write_text(GRAPH.format(address=nodes.address, steps=steps))
    return str(file)


def of(ended: Ended, event: str) -> list[dict[str, Any]]:
    return [each for each in ended.events if each["event"] == event]


def require_whole(ended: Ended, *, steps: int) -> None:
    assert ended.code == 0, ended.err
    summary = ended.summary
    assert (summary["steps"], summary["samples_trained"]) == (steps, steps * 8)
    assert (summary["samples_lost"], summary["samples_duplicated"]) == (0, 0)
    assert summary["staleness_violations"] == 0


@pytest.mark.slow
def test_rollouts_on_another_node_get_weights_and_give_answers_over_the_wire(tmp_path: Path) -> None:
    with cluster({"side": 1}) as nodes:
        directory = tmp_path / "run"
        ended = headrace(graph(tmp_path, nodes, steps=2), directory=directory, timeout_s=300)
    require_whole(ended, steps=2)
    hosts = {event["replica"]: event["ray_node"] for event in of(ended, "started")}
    assert hosts["answers/0"] != hosts["learn/0"] == hosts["scores/0"]
    (joined,) = of(ended, "node_joined")
    assert joined["ray_node"] == hosts["answers/0"]
    metrics = (directory / "metrics.jsonl").read_text()
    assert '"sync/moved_bytes":0.0' not in metrics.replace(" ", "")
    assert "sync/moved_bytes" in metrics


@pytest.mark.nightly
@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_a_node_that_is_lost_costs_no_sample_and_its_replicas_come_back_on_another(
    tmp_path: Path, durability: str
) -> None:
    directory, steps = tmp_path / "run", 30
    with cluster({"side": 1}, {"side": 1}) as nodes:
        words = (graph(tmp_path, nodes, steps=steps), f"queue.durability={durability}")
        with started(*words, directory=directory) as process:
            until(process, lambda line: line.startswith("step 4/"))
            (first,) = [each["ray_node"] for each in seen(directory) if each.get("replica") == "answers/0"]
            (lost,) = [node for node in nodes.worker_nodes if node.node_id == first]
            nodes.remove_node(lost, allow_graceful=False)
            out, err = process.communicate(timeout=300)
        sweep(root())
    ended = Ended(code=process.returncode, out=out, err=err, directory=directory)
    require_whole(ended, steps=steps)
    assert [event["ray_node"] for event in of(ended, "node_lost")] == [first]
    assert [event["replica"] for event in of(ended, "died")] == ["answers/0"]
    hosts = [event["ray_node"] for event in of(ended, "started") if event["replica"] == "answers/0"]
    assert len(hosts) == len(set(hosts)) == 2


@pytest.mark.nightly
def test_what_is_asked_of_a_live_run_is_done_on_the_other_nodes_of_its_cluster(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with cluster({"side": 1}, {"side": 1}) as nodes:
        with started(graph(tmp_path, nodes, steps=100_000), directory=directory) as process:
            until(process, lambda line: line.startswith("step 1/"))
            assert asked(directory, "scale", "answers=2") == "answers 1 -> 2: added answers/1\n"
            assert asked(directory, "restart", "scores") == "restarted scores/0\n"
            assert asked(directory, "set", "staleness=2") == "staleness: prompts 2.0\n"
            assert asked(directory, "scale", "answers=1") == "answers 2 -> 1: drained answers/1\n"
            made = len(steps(directory))
            until_recorded(process, lambda: len(steps(directory)) > made + 1)
            asked(directory, "stop")
            run = ended(process, directory)
        sweep(root())
    assert run.code == 130, run.err
    hosts = {each["replica"]: each["ray_node"] for each in events(directory, "started")}
    assert len({hosts["answers/0"], hosts["answers/1"], hosts["learn/0"]}) == 3
    assert (run.summary["samples_lost"], run.summary["samples_duplicated"]) == (0, 0)
    assert run.summary["staleness_violations"] == 0
    assert events(directory, "died", "failed") == []


@pytest.mark.nightly
def test_a_replica_that_dies_is_replaced_on_another_node_where_its_role_says_so(tmp_path: Path) -> None:
    """Its own node is well, and has room. Where places are reserved it would come back to its own."""
    directory, steps_ = tmp_path / "run", 30
    with cluster({"side": 1}, {"side": 1}) as nodes:
        words = (graph(tmp_path, nodes, steps=steps_), "answers.on_failure=replace", "answers.placement=null")
        with started(*words, directory=directory) as process:
            until(process, lambda line: line.startswith("step 4/"))
            os.kill(replica_pid(directory, "answers/0"), signal.SIGKILL)
            run = ended(process, directory, timeout_s=300)
        sweep(root())
    require_whole(run, steps=steps_)
    hosts = [each["ray_node"] for each in events(directory, "started") if each["replica"] == "answers/0"]
    assert len(hosts) == len(set(hosts)) == 2


def asked(directory: Path, *command: str) -> str:
    """What a command of the operator's prints."""
    result = CliRunner().invoke(app, [*command, "--run", str(directory)])
    assert result.exit_code == 0, result.output or repr(result.exception)
    return result.output


def seen(directory: Path) -> list[dict[str, Any]]:
    """What the run has said so far of replicas that were started."""
    lines = (directory / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "started"]
