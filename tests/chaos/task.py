"""The run that is disturbed: every row of its data is trained on once, whatever happens on the way."""

from collections.abc import Sequence
from pathlib import Path

from headrace.transferqueue.disk.archive import read_archive

PROMPTS, SAMPLES = 4, 2
"""Of a step."""
NODES = ("prompts", "answers", "scores", "learn")
LONG_S = 240.0

_GRAPH = """\
name: chaos
seed: 0
staleness: {staleness}
deterministic: {deterministic}
steps: {steps}
runtime: {runtime}
drills: true
max_restarts: 20
no_progress_timeout_s: 240
queue: {{durability: disk, archive: true}}
policies:
  actor: {{model: tiny-copier}}
nodes:
  prompts: {{kind: source, dataset: {{kind: copy, size: {prompt_count}}}, samples_per_prompt: {samples},
            epochs: 1, threads: 1, {prompts}}}
  answers: {{kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 4, threads: 1,
            replicas: 2, {answers},
            fake: {{answer: random, mean_tokens: 4, seconds_per_token: 0.02}}}}
  scores: {{kind: reward, inputs: [answers], verifier: copy, {scores}}}
  learn: {{kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo,
          prompts_per_step: {of_step}, threads: 1, checkpoint_every: 4, keep_checkpoints: 1,
          {learn}}}
"""


def graph(
    *,
    steps: int,
    runtime: str,
    stalled_s: float,
    staleness: int = 1,
    watched: Sequence[str] = NODES,
    deterministic: bool = False,
) -> str:
    """As YAML; `stalled_s`: after which a replica of a node that is `watched` counts as wedged."""
    limits = {node: f"stalled_after_s: {stalled_s if node in watched else LONG_S}" for node in NODES}
    return _GRAPH.format(
        steps=steps,
        staleness=staleness,
        deterministic=str(deterministic).lower(),
        runtime=runtime,
        prompt_count=steps * PROMPTS,
        samples=SAMPLES,
        of_step=PROMPTS,
        **limits,
    )


def rows(steps: int) -> int:
    """That a run of so many steps trains on."""
    return steps * PROMPTS * SAMPLES


def weights(directory: Path, steps: int) -> bytes:
    """Of the policy, as a run of so many steps left them."""
    return (directory / "checkpoints" / f"step-{steps:08}" / "model.safetensors").read_bytes()


def trained(directory: Path) -> list[int]:
    """Uids of the rows that the steps of a run committed, each as often as it was, in order."""
    kept = read_archive(directory / "queue", "prompts").select(["uid", "step"]).to_pylist()
    return sorted(row["uid"] for row in kept if row["step"] >= 0)
