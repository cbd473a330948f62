"""A run whose answers a server on the loopback gives, and a policy that learns from them."""

import json
from pathlib import Path

import pytest

from headrace.dataflow.check import check
from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch
from tests.services.endpoint.server import Said, served

GRAPH = """\
name: copy
steps: 2
runtime: local
no_progress_timeout_s: 120
policies:
  actor: {model: tiny-copier}
  elder: {model: tiny-copier, seed: 7}
nodes:
  prompts: {kind: source, dataset: {kind: copy, letters: 2}, samples_per_prompt: 2}
  answers: {kind: rollout, inputs: [prompts], policy: elder, max_new_tokens: 3, engine: openai,
            openai: {base_url: "BASE_URL", model: elder}}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  handed: {kind: branch, inputs: [answers, scores]}
  learn: {kind: trainer, inputs: [handed], policy: actor, algorithm: sft, prompts_per_step: 2,
          threads: 1}
"""
END = 1


def right(prompt: list[int], _: int) -> Said:
    """The word of the prompt without its last token, and the end."""
    ids = [*prompt[:-1], END]
    logprobs = {"token_logprobs": [-0.25] * len(ids)}
    choice = {"token_ids": ids, "prompt_token_ids": prompt, "logprobs": logprobs, "finish_reason": "stop"}
    return Said(body=json.dumps({"choices": [choice]}))


@pytest.mark.slow
def test_a_policy_learns_from_the_ids_that_a_server_drew(tmp_path: Path, shared: Path) -> None:
    with served(right, route="completions") as server:
        spec = parse(GRAPH.replace("BASE_URL", server.base_url)).spec
        assert list(check(spec)) == []
        assert launch(spec, output=tmp_path / "run") == 0
    lines = [line for line in read_jsonl(tmp_path / "run" / "metrics.jsonl").records if "step" in line]
    assert [(line["step"], line["reward/mean"]) for line in lines] == [(0, 1.0), (1, 1.0)]
    assert all(line["actor/grad_norm"] > 0 for line in lines)
    first, *asked = server.asked
    assert first["max_tokens"] == 1, "a token, before the replica is ready"
    assert all(len(body["prompt"]) == 3 and body["max_tokens"] == 3 for body in asked)
    assert list(shared.iterdir()) == []
