"""Runs with a model beside the policy that scores and never learns: a teacher, a critic."""

from pathlib import Path

import pytest

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch
from tests.services.test_critic import saved_critic
from tests.services.test_teacher import saved_copier

GRAPH = """\
name: copy
steps: 2
runtime: local
no_progress_timeout_s: 120
policies:
  actor: {{model: tiny-copier}}
  other: {{model: {model}}}
nodes:
  prompts: {{kind: source, dataset: {{kind: copy, letters: 2}}, samples_per_prompt: 2}}
  answers: {{kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 3}}
  scores: {{kind: reward, inputs: [answers], verifier: copy}}
  judge: {{kind: {kind}, inputs: [answers], policy: other, threads: 1}}
  learn: {{kind: trainer, inputs: [answers, scores, judge], policy: actor, algorithm: {algorithm},
           prompts_per_step: 2, threads: 1}}
"""


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("teacher", "opd"),
        ("teacher", "atod"),
        ("critic", "{kind: sao, critic: node}"),
        ("critic", "{kind: ppo, critic: node}"),
    ],
)
def test_the_trainer_learns_from_what_a_frozen_model_says(
    tmp_path: Path, shared: Path, kind: str, algorithm: str
) -> None:
    if kind == "teacher":
        saved_copier(tmp_path / "model", seed=9)
    else:
        saved_critic(tmp_path / "model")
    text = GRAPH.format(model=tmp_path / "model", kind=kind, algorithm=algorithm)
    assert launch(parse(text).spec, output=tmp_path / "run") == 0
    records = read_jsonl(tmp_path / "run" / "metrics.jsonl").records
    steps = [record for record in records if "step" in record]
    assert [step["step"] for step in steps] == [0, 1]
    assert all(step["actor/grad_norm"] > 0 for step in steps)
    assert list(shared.iterdir()) == []
