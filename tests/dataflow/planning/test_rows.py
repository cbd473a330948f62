"""What the planner makes of nodes that drop, shape and keep rows."""

from headrace.dataflow.language.parse import parse
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.plan import Plan, ServicePlan, plan
from headrace.services.options import SinkOptions
from headrace.transferqueue.schema import Column

GRAPH = """\
name: copy
steps: 3
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy, samples_per_prompt: 2}
  answers: {kind: rollout, inputs: [prompts], policy: actor}
  kept: {kind: filter, inputs: [answers], function: mine:kept, columns: [response, retokenises]}
  base: {kind: reward, inputs: [answers], verifier: copy, column: base}
  shaped: {kind: transform, inputs: [kept, base], function: mine:shaped, columns: [base, response_ids],
           writes: {reward: float64}}
  learn: {kind: trainer, inputs: [answers, shaped], policy: actor, algorithm: grpo, prompts_per_step: 2}
  all: {kind: sink, inputs: [answers, base]}
  few: {kind: sink, inputs: [shaped], columns: [reward, prompt]}
"""


def planned() -> Plan:
    return plan(parse(GRAPH).spec, Cluster(cpus=4.0, gpus=0.0, cores=4))


def service(name: str) -> ServicePlan:
    return next(each for each in planned().services if each.node == name)


def test_a_transform_is_no_service_and_runs_in_those_that_read_what_it_gives() -> None:
    assert [each.node for each in planned().services if each.fused] == ["learn", "few"]
    assert service("learn").fused == ("shaped",)
    assert "shaped" not in [each.node for each in planned().services]


def test_the_table_holds_marks_and_not_what_transforms_give() -> None:
    table = planned().tables["prompts"]
    names = [column.name for column in table.columns]
    assert "reward" not in names and {"base", "base_invalid", "base_parts"} <= set(names)
    assert table.column("kept_passed") == Column(name="kept_passed", dtype="bool")
    tasks = {task.name: task for task in table.tasks}
    assert (tasks["kept"].reads, tasks["kept"].writes) == (("response_ids", "retokenises"), ("kept_passed",))
    assert {"base", "response_ids", "kept_passed"} <= set(tasks["learn"].reads)
    assert (tasks["few"].reads, tasks["few"].writes) == (
        ("prompt_ids", "base", "response_ids", "kept_passed"),
        (),
    )


def test_a_sink_that_names_no_columns_keeps_the_texts_and_what_its_inputs_write() -> None:
    options = service("all").options
    assert isinstance(options, SinkOptions)
    assert options.columns == (
        *("prompt", "response", "response_ids", "logprobs", "versions", "loss_mask", "finish_reason"),
        *("retokenises", "base", "base_invalid", "base_parts"),
    )
    assert service("few").options.columns == ("reward", "prompt")
