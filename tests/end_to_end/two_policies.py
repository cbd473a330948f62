"""A solver and a verifier of its answers: two tables, two trainers, scripted engines, small steps.

A step of the solver is 2 prompts of 2 answers, each answer a prompt of the verifier, whose step is 4 prompts
of 2 answers: as many as one of the solver's makes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.running.launch import launch

JUDGING = Path(__file__).with_name("judging.py")
RECORDED = Path(__file__).with_name("recorded.py")
TRAINERS = {"solver": "learn", "verifier": "learn_judging"}
TABLES = {"solver": "prompts", "verifier": "judged"}
ROWS = {"solver": 4, "verifier": 8}
"""Of a step."""

GRAPH = f"""\
name: two
staleness: 1
steps: 6
runtime: local
no_progress_timeout_s: 120
policies:
  solver: {{model: tiny-copier, optimizer: {{lr: 1.0e-3}}}}
  verifier: {{model: tiny-copier, seed: 1, optimizer: {{lr: 1.0e-3}}}}
nodes:
  prompts: {{kind: source, dataset: {{kind: copy, letters: 1, alphabet: ab}}, samples_per_prompt: 2,
            threads: 1}}
  answers: {{kind: rollout, inputs: [prompts], policy: solver, engine: fake, max_new_tokens: 3, threads: 1,
            fake: {{answer: random, vocabulary: 5, mean_tokens: 2}}}}
  judged: {{kind: branch, inputs: [answers], function: "{JUDGING}:judged", samples_per_prompt: 2}}
  judgements: {{kind: rollout, inputs: [judged], policy: verifier, engine: fake, max_new_tokens: 2,
               threads: 1, fake: {{answer: random, vocabulary: 5, mean_tokens: 2}}}}
  judging: {{kind: reward, inputs: [judgements], verifier: {{kind: python, function: "{JUDGING}:judgement"}}}}
  learn_judging: {{kind: trainer, inputs: [judgements, judging], policy: verifier,
                  algorithm: {{kind: grpo, entropy_coef: 0.01}}, prompts_per_step: 4, threads: 1}}
  trust: {{kind: join, inputs: [judging], column: trust, of: reward_parts.trust}}
  scores:
    kind: reward
    inputs: [answers, trust]
    verifier: {{kind: python, function: "{JUDGING}:solution", columns: [trust]}}
  learn: {{kind: trainer, inputs: [answers, scores], policy: solver,
          algorithm: {{kind: grpo, entropy_coef: 0.01}}, prompts_per_step: 2, threads: 1}}
"""
"""The entropy's part moves the weights in every step, whatever the scores."""

APART = """\
name: apart
staleness: 1
steps: 6
runtime: local
no_progress_timeout_s: 120
policies:
  slow: {model: tiny-copier}
  quick: {model: tiny-copier}
nodes:
  a: {kind: source, dataset: copy, samples_per_prompt: 2, threads: 1}
  b: {kind: rollout, inputs: [a], policy: slow, engine: fake, max_new_tokens: 4, threads: 1,
      fake: {answer: random, mean_tokens: 4, seconds_per_token: 0.1}}
  c: {kind: reward, inputs: [b], verifier: copy}
  learn_slow: {kind: trainer, inputs: [b, c], policy: slow, algorithm: grpo, prompts_per_step: 2,
               threads: 1}
  k: {kind: source, dataset: copy, samples_per_prompt: 2, threads: 1}
  l: {kind: rollout, inputs: [k], policy: quick, engine: fake, max_new_tokens: 4, threads: 1,
      fake: {answer: random, mean_tokens: 4}}
  m: {kind: reward, inputs: [l], verifier: copy}
  learn_quick: {kind: trainer, inputs: [l, m], policy: quick, algorithm: grpo, prompts_per_step: 2,
                threads: 1}
"""
"""Two policies that have nothing to do with each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a launch left behind."""

    directory: Path
    code: int

    def steps(self, policy: str) -> list[dict[str, Any]]:
        """Its records, in the order in which they were told."""
        lines = read_jsonl(self.directory / "metrics.jsonl").records
        return [line for line in lines if "step" in line and line["policy"] == policy]

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = read_jsonl(self.directory / "events.jsonl").records
        return [line for line in lines if line["event"] == kind]

    def table(self, policy: str) -> dict[str, Any]:
        """What the queue said last of the table that a policy learns from."""
        return next(e for e in reversed(self.events("queue")) if e["table"] == TABLES[policy])

    def checkpoints(self, policy: str) -> Path:
        return RunDir.open(self.directory).checkpoints_of(policy, alone=False)

    def weights(self, policy: str, step: int) -> bytes:
        """Of a checkpoint."""
        return (self.checkpoints(policy) / f"step-{step:08d}" / "model.safetensors").read_bytes()


def ran(directory: Path, *overrides: str, text: str = GRAPH, resume: bool = False) -> Run:
    """A launch in this process."""
    spec = parse(text, overrides=overrides).spec
    code = launch(spec, resume=directory) if resume else launch(spec, output=directory)
    return Run(directory=directory, code=code)


def recorded(trainer: str, file: Path, *columns: str, **options: Any) -> str:
    """Override by which a trainer writes down what it is given; see `recorded.Recorded`."""
    reads = ["response_ids", "versions", *columns]
    given = {"file": str(file), "columns": list(columns), **options}
    algorithm = {"kind": "python", "path": f"{RECORDED}:Recorded", "reads": reads, "options": given}
    return f"{trainer}.algorithm={json.dumps(algorithm)}"


def read_recorded(file: Path) -> list[dict[str, Any]]:
    """A line for each lease."""
    return [json.loads(line) for line in file.read_text().splitlines()]


DEPENDENT = """\
  n: {kind: branch, inputs: [b], function: "JUDGING:judged", samples_per_prompt: 2}
  o: {kind: rollout, inputs: [n], policy: below, engine: fake, max_new_tokens: 2, threads: 1,
      fake: {answer: random, mean_tokens: 2}}
  p: {kind: reward, inputs: [o], verifier: {kind: python, function: "JUDGING:judgement"}}
  learn_below: {kind: trainer, inputs: [o, p], policy: below, algorithm: grpo, prompts_per_step: 4,
                threads: 1}
"""
THREE = APART.replace("  quick: {", "  below: {model: tiny-copier}\n  quick: {", 1) + DEPENDENT.replace(
    "JUDGING", str(JUDGING)
)
"""A third policy, `below`, is asked about the answers of `slow`."""
