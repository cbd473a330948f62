"""The disk under a live run is full, and damages what lies on it: nothing is lost, nothing damaged used."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.dataflow.cli import app
from tests.end_to_end.runs import ended, events, started, steps, until, until_recorded

GRAPH = """\
name: disk
staleness: 1
steps: 100000
runtime: local
drills: true
queue: {durability: disk}
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy, samples_per_prompt: 2, threads: 1}
  answers: {kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 4, threads: 1,
            fake: {answer: random, mean_tokens: 4, seconds_per_token: 0.01}}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 4,
          threads: 1}
"""


def ask(directory: Path, *command: str) -> bool:
    """Whether the operator's command was done."""
    return CliRunner().invoke(app, [*command, "--run", str(directory)]).exit_code == 0


def said(directory: Path) -> str:
    return CliRunner().invoke(app, ["ps", "--run", str(directory)], env={"COLUMNS": "400"}).output


@pytest.mark.slow
def test_a_full_disk_pauses_a_run_and_damaged_cells_are_made_anew(tmp_path: Path) -> None:
    directory, file = tmp_path / "run", tmp_path / "disk.yaml"
    file.write_text(GRAPH)
    with started(str(file), directory=directory) as process:
        until(process, lambda line: line.startswith("step 1/"))
        assert ask(directory, "inject", "queue", "full-disk", "--why", "a drill")
        until_recorded(process, lambda: bool(events(directory, "paused")))
        assert "the queue waits for room, for" in said(directory)
        assert ask(directory, "inject", "queue", "lift")
        until_recorded(process, lambda: bool(events(directory, "resumed")))
        made = len(steps(directory))
        until_recorded(process, lambda: len(steps(directory)) > made + 1)
        until_recorded(process, lambda: ask(directory, "inject", "queue", "corrupt"))
        until_recorded(process, lambda: bool(events(directory, "cells_damaged")))
        made = len(steps(directory))
        until_recorded(process, lambda: len(steps(directory)) > made + 3)
        assert ask(directory, "stop")
        run = ended(process, directory)
    assert run.code == 130, run.err
    (paused,) = events(directory, "paused")
    assert (paused["replica"], paused["directory"]) == ("queue", str(directory / "queue"))
    assert paused["needed_bytes"] > 0 and paused["way_out"] == f"make room in {directory / 'queue'}"
    found = events(directory, "cells_damaged")
    assert all("are issued again and 0 are dropped" in event["reason"] for event in found)
    figures = run.summary
    assert (figures["samples_lost"], figures["samples_duplicated"]) == (0, 0)
    assert figures["staleness_violations"] == 0
    assert events(directory, "died", "failed", "wedged", "given_up") == []
