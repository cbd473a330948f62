"""Runs whose rewards a judge on the loopback gives, and whose answers are of a policy that nobody trains."""

from pathlib import Path

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch
from tests.services.endpoint.server import completion, served

GRAPH = """\
name: copy
steps: 2
runtime: local
no_progress_timeout_s: 120
policies:
  actor: {{model: tiny-copier}}
  elder: {{model: tiny-copier, seed: 7}}
nodes:
  prompts: {{kind: source, dataset: {{kind: copy, letters: 2}}, samples_per_prompt: 2}}
  answers: {{kind: rollout, inputs: [prompts], policy: {answers}, max_new_tokens: 3, threads: 1}}
  scores: {scores}
  learn: {{kind: trainer, inputs: [answers, scores], policy: actor, algorithm: {algorithm},
           prompts_per_step: 2, threads: 1}}
"""


def steps(text: str, run: Path) -> list[dict[str, float]]:
    assert launch(parse(text, overrides=()).spec, output=run) == 0
    return [line for line in read_jsonl(run / "metrics.jsonl").records if "step" in line]


def test_a_run_is_rewarded_by_what_a_judge_replies(tmp_path: Path, shared: Path) -> None:
    with served(lambda question, _: completion(f"Score: {len(question)}", tokens=5)) as server:
        scores = (
            f"{{kind: judge, inputs: [answers], base_url: '{server.base_url}', model: big, "
            "template: '{example.answer}', scale: 4}"
        )
        text = GRAPH.format(answers="actor", scores=scores, algorithm="grpo").replace(
            "  elder: {model: tiny-copier, seed: 7}\n", ""
        )
        lines = steps(text, tmp_path / "run")
    assert len(server.asked) >= 8
    assert [(line["reward/mean"], line["reward/judge_tokens"]) for line in lines] == [(0.5, 5.0)] * 2
    assert list(shared.iterdir()) == []


def test_a_policy_that_nobody_trains_answers_with_its_own_weights(tmp_path: Path, shared: Path) -> None:
    text = GRAPH.format(
        answers="elder", scores="{kind: reward, inputs: [answers], verifier: copy}", algorithm="sft"
    )
    lines = steps(text, tmp_path / "run")
    assert [line["step"] for line in lines] == [0, 1]
    assert all(line["actor/grad_norm"] > 0 for line in lines)
