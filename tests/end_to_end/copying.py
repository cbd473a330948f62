"""A short run of the copy task in this process: two letters of ten, a step of 256 answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch

GRAPH = """\
name: copy
staleness: 0
steps: 80
runtime: local
policies:
  actor: {model: tiny-copier, optimizer: {lr: 1.0e-3, betas: [0.9, 0.99]}}
nodes:
  prompts: {kind: source, dataset: {kind: copy, letters: 2}, samples_per_prompt: 8, threads: 1}
  answers: {kind: rollout, inputs: [prompts], policy: actor, max_new_tokens: 2, temperature: 1.2, threads: 1}
  scores: {kind: reward, inputs: [answers], verifier: {kind: copy, exact_weight: 0}}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 32,
          threads: 1}
"""
ENDS = 5
"""Steps over which the first and the last figures are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a run recorded."""

    directory: Path
    steps: list[dict[str, Any]]

    def first(self, metric: str) -> float:
        return sum(step[metric] for step in self.steps[:ENDS]) / ENDS

    def last(self, metric: str) -> float:
        return sum(step[metric] for step in self.steps[-ENDS:]) / ENDS

    def checkpoint(self, step: int | None = None) -> Path:
        """The model folder of a step that has one; None: of the last."""
        return self.directory / "checkpoints" / f"step-{step or len(self.steps):08d}"


def copying(directory: Path, *overrides: str, text: str = GRAPH) -> Course:
    """Runs `text` with overrides to its end."""
    assert launch(parse(text, overrides=overrides).spec, output=directory) == 0
    records = read_jsonl(directory / "metrics.jsonl").records
    return Course(directory=directory, steps=[record for record in records if "step" in record])
