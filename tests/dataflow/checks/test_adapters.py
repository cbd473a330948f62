import importlib.util

import pytest

from headrace.dataflow import Graph
from headrace.dataflow.checks.adapters import check_adapters


def graph(**lora: object) -> Graph:
    built = Graph("copy", steps=4, runtime="local")
    actor = built.policy("actor", model="tiny-copier", lora=lora)
    critic = built.policy("critic", model="tiny-value", lora={"rank": 2})
    prompts = built.source("prompts", dataset="copy", samples_per_prompt=4)
    answers = built.rollout(prompts, policy=actor, max_new_tokens=5)
    scores = built.reward(answers, verifier="copy")
    values = built.critic(answers, policy=critic)
    inputs = [answers, scores, values]
    built.trainer(actor, inputs=inputs, algorithm={"kind": "ppo", "critic": "node"}, prompts_per_step=8)
    built.trainer(critic, inputs=inputs, algorithm="value", prompts_per_step=8, name="fit")
    return built


def test_a_value_model_is_trained_whole() -> None:
    assert list(map(str, check_adapters(graph(rank=4).spec()))) == [
        "policies.critic.lora: a value model is trained whole: its output has to be learned; remove lora"
    ]


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert str(next(iter(check_adapters(graph(rank=4).spec())))) == (
        "policies.actor.lora: adapters are made by the package peft, which is not installed; "
        "pip install 'headrace[lora]'"
    )
