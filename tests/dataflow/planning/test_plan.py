import json
import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from headrace.algorithms.updates import MiniBatches
from headrace.dataflow import Graph
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.arithmetic import StepPlan
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.modes import mode
from headrace.dataflow.planning.plan import Plan, Rates, plan, rates, threads
from headrace.dataflow.planning.plan_text import render
from headrace.services.columns import PROMPT, REFERENCE, RESPONSE, REWARD
from headrace.services.options import OptimizerOptions, TrainerOptions
from headrace.transferqueue.schema import TableSpec, Task

CLUSTER = Cluster(cpus=4.0, gpus=0.0, cores=4)


def graph(*, staleness: float = 0.5, kl_coef: float = 0.0) -> GraphSpec:
    built = Graph("copy", staleness=staleness, steps=10)
    actor = built.policy("actor", model="tiny-copier")
    prompts = built.source("prompts", dataset="copy", samples_per_prompt=3)
    answers = built.rollout(prompts, policy=actor, temperature=0.7, replicas=2, threads=1)
    inputs = [answers, built.reward(answers, verifier="copy")]
    if kl_coef:
        inputs.append(built.reference(answers, policy=actor))
    algorithm = {"kind": "grpo", "kl_coef": kl_coef}
    built.trainer(actor, inputs=inputs, algorithm=algorithm, prompts_per_step=5)
    return built.spec()


def test_a_step_counts_its_samples_and_the_rows_in_flight_in_whole_groups() -> None:
    planned = plan(graph(staleness=0.5), CLUSTER)
    assert planned.batches == {
        "prompts": StepPlan(
            samples_per_prompt=3,
            smallest_group=3,
            largest_group=3,
            prompts_per_step=5,
            samples_per_step=15,
            rows_in_flight=24,
            max_rows=54,
            temperature=0.7,
            max_new_tokens=16,
        )
    }
    assert planned.tables["prompts"].max_rows == 24 + 30


def budgeted(
    budget: dict[str, object], *, ahead_steps: float | None = None, sampler: str = "uniform"
) -> Plan:
    built = Graph("copy", staleness=1, steps=10)
    actor = built.policy("actor", model="tiny-copier")
    dataset = {"kind": "copy", "letters": [2, 3]}
    prompts = built.source(
        "prompts",
        dataset=dataset,
        samples_per_prompt=3,
        budget=budget,
        sampler=sampler,
        ahead_steps=ahead_steps,
    )
    answers = built.rollout(prompts, policy=actor)
    scores = built.reward(answers, verifier="copy")
    built.trainer(actor, inputs=[answers, scores], algorithm="grpo", prompts_per_step=5)
    return plan(built.spec(), CLUSTER)


def test_a_budget_that_is_spent_makes_steps_of_the_same_size_with_groups_of_others() -> None:
    planned = budgeted({"kind": "coba_rl", "low": 2, "high": 6})
    batch = planned.batches["prompts"]
    assert (batch.smallest_group, batch.samples_per_prompt, batch.largest_group) == (2, 3, 6)
    assert (batch.samples_per_step, batch.rows_in_flight) == (15, 30)
    text = Console(width=200)
    with text.capture() as said:
        text.print(render(planned))
    assert "5 prompts x 3 samples = 15 rows of 'prompts' on average, 2 to 6 to a prompt" in said.get()


def test_a_table_has_room_for_a_put_beside_the_largest_groups_that_do_not_make_a_step() -> None:
    """Four groups of 6 wait for a fifth, which stands in a put of five groups of 6."""
    planned = budgeted({"kind": "coba_rl", "low": 2, "high": 6}, ahead_steps=0)
    assert planned.tables["prompts"].max_rows == 4 * 6 + 5 * 6


def test_a_budget_that_follows_from_the_prompts_is_laid_out_for_the_largest() -> None:
    batch = budgeted(
        {
            "kind": "staged",
            "stages": [{"prompts": 9, "samples_per_prompt": 2}, {"prompts": 1, "samples_per_prompt": 8}],
        }
    ).batches["prompts"]
    assert (batch.smallest_group, batch.largest_group, batch.samples_per_step) == (2, 8, 40)


def test_a_source_that_hears_has_a_task_of_its_own_and_keeps_fewer_prompts_waiting() -> None:
    hearing, deaf = (
        budgeted({"kind": "fixed"}, sampler=kind).tables["prompts"] for kind in ("dump", "mixture")
    )
    assert hearing.tasks[-1] == Task(name="prompts.feedback", reads=("reward",), needs_full_group=True)
    assert [task.name for task in deaf.tasks] == ["answers", "scores", "learn"]
    assert (hearing.max_rows, deaf.max_rows) == (30 + 15, 30 + 30)


def test_an_unbounded_staleness_still_bounds_the_rows() -> None:
    planned = plan(graph(staleness=math.inf), CLUSTER)
    assert planned.batches["prompts"].rows_in_flight == 5 * 5 * 3
    assert planned.tables["prompts"].max_rows == 75 + 30


def test_the_table_has_the_columns_and_tasks_of_its_nodes() -> None:
    (table,) = plan(graph(staleness=2, kl_coef=0.05), CLUSTER).tables.values()
    trained = ("prompt_ids", "response_ids", "logprobs", "versions", "loss_mask", "finish_reason")
    assert table == TableSpec(
        name="prompts",
        columns=(*PROMPT, *RESPONSE, *REWARD, *REFERENCE),
        tasks=(
            Task(
                name="answers",
                reads=("prompt_ids",),
                writes=tuple(column.name for column in RESPONSE),
                kind="begin",
                needs_full_group=True,
            ),
            Task(
                name="scores",
                reads=("example", "response_ids"),
                writes=("reward", "reward_invalid", "reward_parts"),
            ),
            Task(name="reference", reads=("prompt_ids", "response_ids"), writes=("reference_logprobs",)),
            Task(
                name="learn",
                reads=(
                    *trained,
                    "retokenises",
                    "reward",
                    "reference_logprobs",
                    "reward_invalid",
                    "reward_parts",
                ),
                kind="train",
                needs_full_group=True,
            ),
        ),
        policy="actor",
        units_per_step=5,
        staleness=2.0,
        max_rows=3 * 15 + 30,
    )


def threads_of(staleness: float) -> dict[str, int]:
    planned = plan(graph(staleness=staleness, kl_coef=0.05), CLUSTER)
    return {service.node: service.threads for service in planned.services}


def test_models_that_take_turns_get_every_core_unless_told_otherwise_and_the_rest_one() -> None:
    assert threads_of(0) == {"prompts": 1, "answers": 1, "scores": 1, "reference": 4, "learn": 4}


def test_models_that_compute_at_once_share_the_cores_by_replica() -> None:
    assert threads_of(0.5) == {"prompts": 1, "answers": 1, "scores": 1, "reference": 1, "learn": 1}


def test_at_staleness_0_rollouts_share_half_of_the_cores() -> None:
    answers = graph(staleness=0).nodes["answers"]
    open_ended = replace(answers, options=replace(answers.options, threads=None, replicas=3))
    assert threads(graph(staleness=0), open_ended, 16) == 2


def test_a_node_without_a_policy_has_that_of_its_rollout() -> None:
    planned = plan(graph(), CLUSTER)
    assert {service.policy_name for service in planned.services} == {"actor"}
    assert [service.node for service in planned.of_kind("rollout")] == ["answers"]


def test_the_rates_are_those_of_the_first_middle_and_last_step() -> None:
    optimizer = OptimizerOptions(lr=1.0, schedule="linear", warmup_steps=2)
    assert rates(optimizer, 10) == Rates(first=0.5, middle=0.625, last=0.125, optimizer_steps=10)
    assert rates(OptimizerOptions(lr=1e-3), 1) == Rates(first=1e-3, middle=1e-3, last=1e-3, optimizer_steps=1)


def test_the_rates_of_a_run_are_those_of_its_optimizer_steps() -> None:
    spec = graph()
    (name, learn), *_ = spec.of_kind("trainer").items()
    assert isinstance(learn.options, TrainerOptions)
    options = replace(learn.options, update=MiniBatches(number=4, epochs=2))
    optimizer = OptimizerOptions(lr=1.0, schedule="linear")
    spec = replace(
        spec,
        policies={"actor": replace(spec.policies["actor"], optimizer=optimizer)},
        nodes={**spec.nodes, name: replace(learn, options=options)},
    )
    made = plan(spec, CLUSTER).rates["actor"]
    assert (made.first, made.middle, made.optimizer_steps) == (1.0, 0.5, 80)
    assert made.last == pytest.approx(1 / 80, abs=1e-12)


def test_a_rate_that_the_loss_decides_is_known_at_the_start_alone() -> None:
    made = rates(OptimizerOptions(lr=0.5, schedule="greedy"), 10)
    assert made == Rates(first=0.5, middle=None, last=None, optimizer_steps=10)


@pytest.mark.parametrize(
    ("staleness", "words"),
    [
        (
            0,
            "synchronous, streaming: groups are trained on as they finish, none begins on old weights",
        ),
        (0.5, "partly synchronous: generation runs up to 0.5 batch ahead, no sample is staler than 1"),
        (1, "asynchronous: generation runs up to 1 batch ahead, no sample is staler than 1"),
        (2.5, "asynchronous: generation runs up to 2.5 batches ahead, no sample is staler than 3"),
        (math.inf, "asynchronous, without a bound on staleness: only the table's rows hold generation back"),
    ],
)
def test_the_mode_says_what_the_staleness_makes_of_the_run(staleness: float, words: str) -> None:
    assert mode(staleness) == words


def test_a_plan_is_plain_json() -> None:
    tree = json.loads(json.dumps(plan(graph(staleness=math.inf), CLUSTER).to_json(), allow_nan=False))
    assert tree["tables"]["prompts"]["staleness"] == "inf"
    assert tree["rates"] == {"actor": {"first": 0.001, "middle": 0.001, "last": 0.001, "optimizer_steps": 10}}
    assert tree["services"][1]["options"]["max_new_tokens"] == 16


def keys(tree: dict[str, Any]) -> set[str]:
    return set(tree)


def test_the_keys_of_a_plan_in_json_are_these() -> None:
    tree = plan(graph(), CLUSTER).to_json()
    assert keys(tree) == {
        *("name", "runtime", "steps", "mode", "modes", "queue", "cluster", "services", "tables", "batches"),
        *("rates", "policies", "branches", "memory"),
    }
    assert keys(tree["cluster"]) == {"cpus", "gpus", "cores", "memory_bytes", "shared_bytes", "nodes"}
    assert keys(tree["services"][0]) == {
        *("node", "kind", "table", "writes_to", "fused", "policy_name", "policy", "replicas", "threads"),
        *("cpus", "gpus", "options"),
    }
    assert keys(tree["batches"]["prompts"]) == {
        *("samples_per_prompt", "smallest_group", "largest_group", "prompts_per_step", "samples_per_step"),
        *("rows_in_flight", "max_rows", "temperature", "max_new_tokens"),
    }
    assert keys(tree["policies"]["actor"]) == {
        *("table", "trainer", "steps", "staleness", "mode", "freeze", "barriers", "micro_batches"),
    }
    assert keys(tree["policies"]["actor"]["micro_batches"]) == {"least", "full", "most", "max_tokens"}
    assert keys(tree["memory"]) == {
        *("processes", "replicas", "on_gpus", "beside", "total_bytes", "shared_bytes"),
        *("prompt_tokens", "unknown_models"),
    }
    assert tree["branches"] == {}


def test_the_text_of_a_plan_has_a_column_for_what_lies_on_a_card_where_something_does() -> None:
    spec = graph()
    learn = spec.nodes["learn"]
    placed = replace(learn, options=replace(learn.options, gpus=1.0))
    cluster = replace(CLUSTER, gpus=1.0)
    for changed, heads in ((spec, 0), (replace(spec, nodes={**spec.nodes, "learn": placed}), 1)):
        text = Console(width=120)
        with text.capture() as said:
            text.print(render(plan(changed, cluster)))
        assert said.get().count("on a gpu") == heads


def test_the_text_of_a_plan_tells_each_policy_by_itself_only_where_there_are_several() -> None:
    text = Console(width=100)
    with text.capture() as said:
        text.print(render(plan(graph(), CLUSTER)))
    lines = [line.rstrip() for line in said.get().splitlines()]
    assert lines[0] == "copy  10 steps on ray"
    assert [
        line for line in lines if line.startswith(("mode", "model", "step", "passes", "flight", "lr"))
    ] == [
        "mode    partly synchronous: generation runs up to 0.5 batch ahead, no sample is staler than 1",
        "model   tiny-copier in float32",
        "step    5 prompts x 3 samples = 15 rows of 'prompts'",
        "passes  1 to 5 of up to 8192 tokens a step, as answers are long and groups come together",
        "flight  up to 24 rows begun and not yet trained on, 54 rows in all",
        "lr      actor: 0.001 at step 1, 0.001 at step 6, 0.001 at step 10",
    ]
    assert not any(line.startswith("actor") for line in lines)
