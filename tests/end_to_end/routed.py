"""A router and two specialists, scripted engines, small steps: three tables, two of them from the first.

A question goes to the one or the other by the letter that the router's engine draws. The rows of the router
wait for the specialist that was asked.
"""

from pathlib import Path
from typing import Any

from tests.end_to_end.two_policies import Run

ROUTING = Path(__file__).parents[2] / "configs" / "functions" / "routing.py"


def _specialist(name: str) -> str:
    return f"""\
  {name}_questions: {{kind: branch, inputs: [choices], function: "{ROUTING}:to_{name}",
                     samples_per_prompt: 2}}
  {name}_answers: {{kind: rollout, inputs: [{name}_questions], policy: {name}, engine: fake,
                   max_new_tokens: 2, threads: 1, fake: {{answer: random, mean_tokens: 2}}}}
  {name}_marks: {{kind: reward, inputs: [{name}_answers], verifier: copy}}
  {name}_success: {{kind: join, inputs: [{name}_marks], column: {name}}}
  learn_{name}: {{kind: trainer, inputs: [{name}_answers, {name}_marks], policy: {name}, algorithm: grpo,
                 prompts_per_step: 2, threads: 1}}
"""


GRAPH = f"""\
name: routed
staleness: 1
steps: 2
runtime: local
no_progress_timeout_s: 120
policies:
  router: {{model: tiny-copier}}
  short: {{model: tiny-copier, seed: 1}}
  long: {{model: tiny-copier, seed: 2}}
nodes:
  prompts: {{kind: source, dataset: {{kind: copy, letters: [1, 3]}}, samples_per_prompt: 2, threads: 1}}
  choices: {{kind: rollout, inputs: [prompts], policy: router, engine: fake, max_new_tokens: 1, threads: 1,
            fake: {{answer: random, mean_tokens: 2}}}}
{_specialist("short")}{_specialist("long")}
  scores:
    kind: reward
    inputs: [choices, short_success, long_success]
    verifier: {{kind: python, function: "{ROUTING}:routed", columns: [short, long]}}
  learn: {{kind: trainer, inputs: [choices, scores], policy: router, algorithm: grpo, prompts_per_step: 2,
          threads: 1}}
"""
TABLES = ("prompts", "short_questions", "long_questions")
SHORT = ("short_questions", "short_answers", "short_marks", "short_success")
"""The short specialist's nodes, its trainer left out."""


def last_of(run: Run, table: str) -> dict[str, Any]:
    """What the queue said last of a table."""
    return [event for event in run.events("queue") if event["table"] == table][-1]
