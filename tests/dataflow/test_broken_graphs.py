"""Every broken graph is refused, with the place, the value and the way out of each thing wrong with it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.dataflow.check import check, check_structure
from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.problems import GraphError, errors
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.draw import draw_mermaid, draw_text
from headrace.dataflow.planning.drawing.svg import draw_svg

GOOD = """\
name: copy
staleness: 1
steps: 10
policies:
  actor: {model: tiny-copier, optimizer: {lr: 1e-3}}
nodes:
  prompts: {kind: source, dataset: {kind: copy, size: 8}, samples_per_prompt: 8}
  answers: {kind: rollout, inputs: [prompts], policy: actor, max_new_tokens: 5}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 4}
"""

MACHINE = Cluster(cpus=2.0, gpus=0.0, cores=2, memory_bytes=1 << 40)

BROKEN: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("broken_graphs.yaml").read_text())

TWO = Path(__file__).with_name("two_policies.yaml").read_text()
BROKEN_POLICIES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("broken_policies.yaml").read_text()
)


def problems_of(text: str, *overrides: str, cluster: Cluster = MACHINE) -> list[str]:
    try:
        document = parse(text, file="g.yaml", overrides=overrides)
    except GraphError as error:
        return [str(problem) for problem in error.problems]
    return [str(problem) for problem in document.places.locate(check(document.spec, cluster=cluster))]


def test_the_good_graph_has_no_problem() -> None:
    assert problems_of(GOOD) == []


def test_the_good_graph_of_two_policies_has_no_problem() -> None:
    assert problems_of(TWO) == []


@pytest.mark.parametrize("broken", BROKEN_POLICIES, ids=[broken["case"] for broken in BROKEN_POLICIES])
def test_a_broken_graph_of_two_policies_is_told_in_full(broken: dict[str, Any]) -> None:
    assert TWO.count(broken["replace"]) == 1
    text = TWO.replace(broken["replace"], broken["by"])
    assert problems_of(text, *broken.get("overrides", ())) == broken["messages"]


@pytest.mark.parametrize("broken", BROKEN, ids=[broken["case"] for broken in BROKEN])
def test_a_broken_graph_is_told_in_full(broken: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A29: keys that are not known, with the line and what was meant, and those that have no effect."""
    monkeypatch.setenv("HF_HUB_CACHE", "/hub")
    there = broken.get("installed", ())
    monkeypatch.setattr("headrace.dataflow.checks.engines.is_installed", lambda package: package in there)
    monkeypatch.setattr("headrace.dataflow.checks.gpus.built", broken.get("versions", {}).get)
    old, new = broken.get("replace", GOOD), broken.get("by", GOOD)
    assert GOOD.count(old) == 1
    cluster = replace(MACHINE, gpus=float(broken.get("gpus", 0)))
    found = problems_of(GOOD.replace(old, new), *broken.get("overrides", ()), cluster=cluster)
    assert found == broken["messages"]


@pytest.mark.parametrize("broken", BROKEN, ids=[broken["case"] for broken in BROKEN])
def test_a_graph_whose_structure_is_whole_is_drawn_with_its_other_faults(broken: dict[str, Any]) -> None:
    old, new = broken.get("replace", GOOD), broken.get("by", GOOD)
    try:
        spec = parse(GOOD.replace(old, new), overrides=broken.get("overrides", ())).spec
    except GraphError:
        return
    if not errors(check_structure(spec)):
        assert all(draw(spec) for draw in (draw_text, draw_mermaid, draw_svg))


def test_a_name_of_a_node_and_a_policy_has_to_be_told_apart() -> None:
    text = GOOD.replace("actor", "learn")
    assert problems_of(text, "learn.prompts_per_step=2") == [
        "override learn.prompts_per_step=2: 'learn' is a node and a policy; write "
        "nodes.learn.prompts_per_step or policies.learn.prompts_per_step"
    ]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            "{kind: reasoning_gym, task: chain_sums}",
            "g.yaml:7: nodes.prompts.dataset.task: reasoning-gym has no task 'chain_sums'; "
            "did you mean 'chain_sum'?",
        ),
        (
            "{kind: reasoning_gym, task: chain_sum, config: {min_term: 2}}",
            "g.yaml:7: nodes.prompts.dataset.config.min_term: the task chain_sum has no key 'min_term' "
            "(allowed: min_terms, max_terms, min_digits, max_digits, allow_negation); "
            "did you mean 'min_terms'?",
        ),
        (
            "{kind: reasoning_gym, task: [chain_sum, basic_arithmetics]}",
            "g.yaml:7: nodes.prompts.dataset.task: reasoning-gym has no task 'basic_arithmetics'; "
            "did you mean 'basic_arithmetic'?",
        ),
        (
            "{kind: reasoning_gym, task: [chain_sum], config: {min_terms: 2}}",
            "g.yaml:7: nodes.prompts.dataset.config.min_terms: 'min_terms' is none of the tasks "
            "(allowed: chain_sum); write the keys of each task under its name, or remove it",
        ),
        (
            "{kind: reasoning_gym, task: [chain_sum], config: {chain_sum: {min_term: 2}}}",
            "g.yaml:7: nodes.prompts.dataset.config.chain_sum.min_term: the task chain_sum has no key "
            "'min_term' (allowed: min_terms, max_terms, min_digits, max_digits, allow_negation); "
            "did you mean 'min_terms'?",
        ),
    ],
)
def test_a_reasoning_gym_task_is_looked_up(dataset: str, message: str) -> None:
    pytest.importorskip("reasoning_gym")
    assert problems_of(GOOD.replace("{kind: copy, size: 8}", dataset)) == [message]


def test_heads_that_vllm_has_no_kernels_for_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.dataflow.checks.engines.is_installed", lambda package: True)
    config = {"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 1, "intermediate_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 13}))
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    text = GOOD.replace("model: tiny-copier", f"model: {tmp_path}")
    assert problems_of(text) == []
    assert problems_of(text, "answers.engine=vllm") == [
        f"g.yaml:5: policies.actor.model: '{tmp_path}' has heads of size 16, vLLM has no such CPU kernel "
        "(allowed: 32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512); use engine: torch, or another model"
    ]


def test_a_short_jsonl_file_is_counted(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "a"}\n\n{"prompt": "b"}\n')
    text = GOOD.replace("{kind: copy, size: 8}", f"{{kind: jsonl, path: {data}}}, epochs: 3")
    assert problems_of(text) == [
        "g.yaml:7: nodes.prompts.epochs: 10 steps need 40 prompts, 3 epochs of 2 give 6; "
        "set epochs: 20, leave it out, or set steps: 1"
    ]


def test_a_reference_makes_a_divergence_possible() -> None:
    text = GOOD.replace("  scores:", "  ref: {kind: reference, inputs: [answers], policy: actor}\n  scores:")
    text = text.replace("inputs: [answers, scores]", "inputs: [answers, scores, ref]")
    assert problems_of(text, "learn.algorithm.kl_coef=0.05") == []
