import pytest

from headrace.dataflow import Graph, GraphError
from headrace.dataflow.planning.draw import draw_mermaid
from headrace.services.options import CopyData, OptimizerOptions


def copy_graph() -> Graph:
    graph = Graph("copy", staleness=1, steps=120)
    actor = graph.policy("actor", model="tiny-copier", optimizer={"lr": 2e-3})
    prompts = graph.source("prompts", dataset=CopyData(letters=3))
    answers = graph.rollout(prompts, policy=actor, max_new_tokens=5, replicas=2)
    scores = graph.reward(answers, verifier="copy")
    graph.trainer(actor, inputs=[answers, scores], algorithm="grpo", prompts_per_step=16)
    return graph


def test_a_graph_writes_the_yaml_a_person_would() -> None:
    assert (
        copy_graph().to_yaml()
        == """\
name: copy
staleness: 1.0
steps: 120
policies:
  actor:
    model: tiny-copier
    optimizer: {lr: 0.002}
nodes:
  prompts:
    kind: source
    dataset: {kind: copy, letters: 3}
  answers:
    kind: rollout
    inputs: [prompts]
    policy: actor
    replicas: 2
    max_new_tokens: 5
  scores:
    kind: reward
    inputs: [answers]
    verifier: copy
  learn:
    kind: trainer
    inputs: [answers, scores]
    policy: actor
    algorithm: grpo
    prompts_per_step: 16
"""
    )


def test_a_graph_checks_and_plans_before_anything_runs() -> None:
    graph = copy_graph()
    assert graph.check() == []
    assert [service.node for service in graph.plan().services] == ["prompts", "answers", "scores", "learn"]
    assert graph.spec().policies["actor"].optimizer == OptimizerOptions(lr=2e-3)


def test_a_graph_draws_every_edge_once() -> None:
    assert (
        copy_graph().draw()
        == """\
prompts  (source copy, 8 samples per prompt)
└─► answers  (rollout actor, torch engine, 2 replicas)
    ├─► scores  (reward copy)
    │   └─► learn  (trainer actor, grpo, 16 prompts per step)
    └─► learn
learn ~~ weights of actor ~~> answers"""
    )


def test_a_graph_is_a_mermaid_chart() -> None:
    assert (
        draw_mermaid(copy_graph().spec())
        == """\
flowchart TB
    subgraph table_prompts["prompts: 16 x 8 rows a step, trains actor"]
        prompts[("prompts<br/>source copy, 8 samples per prompt")]
        answers["answers<br/>rollout actor, torch engine, 2 replicas"]
        scores["scores<br/>reward copy"]
        learn["learn<br/>trainer actor, grpo, 16 prompts per step"]
    end
    prompts --> answers
    answers --> scores
    answers --> learn
    scores --> learn
    learn -. "weights of actor" .-> answers"""
    )


def refusal(make: object) -> str:
    assert callable(make)
    with pytest.raises(GraphError) as refused:
        make()
    return str(refused.value)


def test_a_wrong_option_is_refused_where_it_is_written() -> None:
    graph = Graph("copy", steps=1)
    actor = graph.policy("actor", model="tiny-copier")
    prompts = graph.source(dataset="copy")
    assert refusal(lambda: graph.rollout(prompts, policy=actor, temprature=0.5)) == (
        "nodes.answers.temprature: a rollout has no key 'temprature' (allowed: kind, inputs, policy, "
        "replicas, autoscale, threads, cpus, gpus, resources, placement, on_failure, stalled_after_s, "
        "engine, max_new_tokens, temperature, max_concurrent, over_new_weights, vllm, openai, fake); did you "
        "mean 'temperature'?"
    )
    assert refusal(lambda: graph.source(dataset="copy")) == (
        "nodes.prompts: the name 'prompts' is taken; pass another name; taken are prompts"
    )
    assert refusal(lambda: Graph("copy", step=1).spec()).startswith("policies: ")


def test_a_handle_of_another_graph_is_refused() -> None:
    graph, other = Graph("one", steps=1), Graph("two", steps=1)
    prompts = other.source(dataset="copy")
    actor = graph.policy("actor", model="tiny-copier")
    assert refusal(lambda: graph.rollout(prompts, policy=actor)) == (
        "prompts: 'prompts' is a handle of another graph; pass handles that this graph made"
    )


def test_a_graph_with_errors_has_no_plan() -> None:
    graph = Graph("copy", steps=1)
    graph.policy("actor", model="tiny-copier")
    graph.source(dataset="copy")
    assert refusal(graph.plan) == (
        "nodes.prompts: no rollout reads 'prompts'; add one: answers: {kind: rollout, inputs: [prompts], "
        "policy: actor}"
    )


def test_a_teacher_hangs_between_the_answers_and_the_trainer() -> None:
    graph = Graph("distil", steps=1)
    student = graph.policy("student", model="tiny-copier")
    teacher = graph.policy("teacher", model="tiny-copier")
    prompts = graph.source(dataset="copy")
    answers = graph.rollout(prompts, policy=student)
    inputs = [answers, graph.reward(answers, verifier="copy"), graph.teacher(answers, policy=teacher)]
    graph.trainer(student, inputs=inputs, algorithm="opd")
    assert graph.check() == []
    assert (
        graph.draw()
        == """\
prompts  (source copy, 8 samples per prompt)
└─► answers  (rollout student, torch engine)
    ├─► scores  (reward copy)
    │   └─► learn
    ├─► teacher  (teacher teacher)
    │   └─► learn  (trainer student, opd, 32 prompts per step)
    └─► learn
learn ~~ weights of student ~~> answers"""
    )
    planned = graph.plan()
    assert {service.node: service.policy_name for service in planned.services} == {
        "prompts": "student",
        "answers": "student",
        "scores": "student",
        "teacher": "teacher",
        "learn": "student",
    }
    assert planned.tables["prompts"].policy == "student" and list(planned.rates) == ["student"]
