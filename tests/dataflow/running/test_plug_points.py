"""Whole launches with everything in the trainer that can be plugged in, and what comes back of it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.running.launch import launch
from headrace.services.trainer.checkpoint import newest

GRAPH = """\
name: copy
steps: 5
runtime: local
no_progress_timeout_s: 120
queue: {durability: disk}
policies:
  actor: {model: tiny-copier, optimizer: {lr: 1.0e-3, schedule: greedy}}
nodes:
  prompts: {kind: source, dataset: {kind: copy, letters: 2}, samples_per_prompt: 3, threads: 1}
  answers: {kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 3, threads: 1,
            fake: {answer: random, vocabulary: 6}}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn:
    kind: trainer
    inputs: [answers, scores]
    policy: actor
    algorithm: {kind: ppo, entropy_coef: {start: 0.01, end: 0.0, last_step: 3}}
    update: {kind: mini_batches, number: 2, epochs: 2}
    filter: {kind: chain, filters: [zero_variance, overlong]}
    prompts_per_step: 2
    checkpoint_every: 2
    keep_checkpoints: 3
    threads: 1
"""


@pytest.fixture
def run(tmp_path: Path, shared: Path) -> Path:
    """A run directory to be."""
    return tmp_path / "run"


def checkpoint(run: Path) -> Path:
    found = newest(RunDir.open(run).checkpoints).checkpoint
    assert found is not None
    return found.path


def steps(run: Path) -> list[dict[str, Any]]:
    return [record for record in read_jsonl(run / "metrics.jsonl").records if "step" in record]


def test_a_step_taken_again_ends_with_the_same_weights_head_moments_and_rate(run: Path) -> None:
    assert launch(parse(GRAPH).spec, output=run) == 0
    made = steps(run)
    assert [record["step"] for record in made] == list(range(5))
    assert all(record["group/accepted"] == 2.0 for record in made)
    assert all(record["actor/updates"] + record["actor/skipped"] == 4.0 for record in made)
    assert sum(record.get("group/dropped/equal_rewards", 0.0) for record in made) > 0
    assert all("critic/vf_loss" in record for record in made if record["actor/updates"])
    assert all(record["actor/lr"] != 1e-3 for record in made)
    last = checkpoint(run)
    files = {name: (last / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors")}
    shutil.rmtree(last)
    assert checkpoint(run).name == "step-00000004"

    assert launch(parse(GRAPH).spec, resume=run) == 0
    assert checkpoint(run).name == last.name
    assert {name: (last / name).read_bytes() for name in files} == files
    *_, before, again = steps(run)
    assert (before["step"], again["step"]) == (4, 4)
    for name in ("reward/mean", "actor/loss", "critic/vf_loss", "actor/lr", "samples/trained"):
        assert before[name] == again[name], name


def test_a_value_head_is_trained_as_groups_stream_in(run: Path) -> None:
    overrides = ("learn.algorithm=sao", "learn.update=accumulate", "learn.filter=null", "steps=2")
    assert launch(parse(GRAPH, overrides=overrides).spec, output=run) == 0
    assert all(record["critic/vf_loss"] > 0.0 for record in steps(run))


def test_smaller_batches_run_ahead_of_no_bound(run: Path) -> None:
    """Words of six letters of which the answers know three: about a quarter of the groups score alike."""
    overrides = (
        *("learn.filter=zero_variance", "learn.max_attempts=1", "learn.when_used_up=train_smaller"),
        *("prompts.dataset.alphabet=abcdef", "prompts.samples_per_prompt=8", "learn.prompts_per_step=4"),
        *("staleness=1", "learn.algorithm=grpo", "steps=6", "actor.optimizer.schedule=constant"),
    )
    assert launch(parse(GRAPH, overrides=overrides).spec, output=run) == 0
    made = steps(run)
    assert len(made) == 6
    for record in made:
        left_out = record.get("group/dropped/equal_rewards", 0.0)
        assert record["group/accepted"] + left_out == 4.0
        assert record["samples/trained"] == 8.0 * record["group/accepted"]
        assert record["staleness/violations"] == 0.0
    assert 0 < sum(record["group/accepted"] for record in made) < 24
