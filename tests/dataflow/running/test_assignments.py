"""What a launch tells the replicas that work on no table."""

from pathlib import Path

from headrace.dataflow.language.parse import parse
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.plan import plan
from headrace.dataflow.running.assignments import Places, Start, assignments
from headrace.services.host import Assignment

GRAPH = """\
name: copy
steps: 20
policies:
  actor: {model: tiny-copier}
  elder: {model: tiny-copier, seed: 7}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, steps: 15}
  held_out: {kind: eval, policy: actor, dataset: copy, verifier: copy}
  before: {kind: eval, policy: elder, dataset: copy, verifier: copy}
"""


def told(tmp_path: Path, start: Start) -> dict[str, Assignment]:
    spec = parse(GRAPH).spec
    places = Places(
        run_dir=tmp_path,
        shared_dir=tmp_path,
        queue_address="ipc://q",
        queue_timeout_s=1.0,
        starts={"prompts": start},
        checkpoints={},
    )
    made = assignments(spec, plan(spec, Cluster(cpus=2.0, gpus=0.0, cores=2)), places)
    return {each.node: each for each in made}


def test_an_eval_goes_along_with_its_policy_s_trainer(tmp_path: Path) -> None:
    each = told(tmp_path, Start(step=12))
    assert [(each[name].flow.first_step, each[name].flow.steps) for name in ("learn", "held_out")] == [
        (12, 15),
        (12, 15),
    ]
    assert each["held_out"].flow.table == ""
    assert each["held_out"].policy_is_trained


def test_an_eval_of_a_policy_that_nobody_trains_begins_at_its_beginning(tmp_path: Path) -> None:
    before = told(tmp_path, Start(step=12))["before"]
    assert (before.flow.first_step, before.policy_is_trained) == (0, False)
