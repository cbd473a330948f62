from pathlib import Path

import pytest

from headrace.dataflow.check import check
from headrace.dataflow.language.parse import load, parse, to_yaml
from headrace.dataflow.language.problems import GraphError, errors
from headrace.dataflow.language.shipped import RESOLVED_GRAPH, find, shipped
from headrace.dataflow.planning.cluster import this_machine
from headrace.dataflow.planning.draw import draw_mermaid, draw_text
from headrace.dataflow.planning.plan import plan
from headrace.services.options import RolloutOptions

TEXT = """\
name: copy
staleness: 2
steps: 10
policies:
  actor: {model: tiny-copier, optimizer: {lr: 1e-4}}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor, max_new_tokens: "${steps}"}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo}
"""


def test_numbers_are_read_as_a_person_means_them() -> None:
    spec = parse(TEXT).spec
    assert spec.policies["actor"].optimizer.lr == 0.0001
    assert spec.staleness == 2.0
    assert isinstance(spec.staleness, float)


def test_an_interpolation_takes_another_value_of_the_graph() -> None:
    options = parse(TEXT, overrides=["steps=12"]).spec.nodes["answers"].options
    assert isinstance(options, RolloutOptions)
    assert options.max_new_tokens == 12


def test_a_run_directory_stands_for_its_resolved_graph(tmp_path: Path) -> None:
    spec = parse(TEXT).spec
    (tmp_path / RESOLVED_GRAPH).write_text(to_yaml(spec, resolved=True))
    assert find(str(tmp_path)) == tmp_path / RESOLVED_GRAPH
    assert load(str(tmp_path)).spec == spec


def test_an_unknown_name_lists_the_shipped_dataflows() -> None:
    with pytest.raises(GraphError) as refused:
        load("grpo_copy_gpu")
    assert str(refused.value) == (
        "grpo_copy_gpu: there is no such file, run directory or shipped dataflow (allowed: "
        f"{', '.join(shipped())}); did you mean 'grpo_copy_cpu'?"
    )


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(GraphError) as refused:
        parse("", file="g.yaml")
    assert str(refused.value) == (
        "g.yaml: the file holds no mapping; write the graph's keys: name, steps, policies, nodes"
    )


def test_the_quick_start_and_the_real_input_are_shipped() -> None:
    assert {"grpo_copy_cpu", "grpo_smollm2_arithmetic_cpu"} <= set(shipped())


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_dataflow_checks_plans_and_draws(name: str) -> None:
    spec = load(name).spec
    problems = [
        problem for problem in check(spec, cluster=this_machine()) if not is_yet_to_come(str(problem))
    ]
    assert errors(problems) == []
    planned = plan(spec, this_machine())
    assert {service.node for service in planned.services} == set(spec.nodes)
    assert all(node in draw_text(spec) and node in draw_mermaid(spec) for node in spec.nodes)
    assert parse(to_yaml(spec, resolved=True)).spec == spec


def is_yet_to_come(problem: str) -> bool:
    """A package to be installed, or a model that another run leaves."""
    return "not installed" in problem or "model 'runs/" in problem


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029"])
def test_line_breaks_of_unicode_in_a_text_survive_the_writing(mark: str) -> None:
    text = f"""
name: breaks
steps: 1
policies: {{actor: {{model: "a{mark.encode("unicode_escape").decode()}b"}}}}
nodes: {{prompts: {{kind: source, dataset: copy}}}}
"""
    spec = parse(text).spec
    assert spec.policies["actor"].model == f"a{mark}b"
    assert parse(to_yaml(spec)).spec == spec


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: '${'", "g.yaml:1: name: cannot be resolved: "),
        ("steps: 1\nname: ${a", "g.yaml:2: name: cannot be resolved: "),
        ("a: !!set {x}", "g.yaml:1: a: cannot be resolved: "),
        ("a: \x00", "g.yaml: not YAML: "),
        ("a: &x [*x]", "g.yaml:1: not YAML: "),
        ("---\na: 1\n---\nb: 2", "g.yaml:3: not YAML: "),
        ("a: ${.b}\nb: ${a}", "g.yaml:1: a: cannot be resolved: "),
        (TEXT.replace("kind: source", "kind: [source]"), "g.yaml:7: nodes.prompts.kind: got a list of 1"),
        (
            TEXT.replace("verifier: copy", "verifier: {kind: {a: b}}"),
            "g.yaml:9: nodes.scores.verifier.kind: got",
        ),
    ],
)
def test_text_of_any_kind_is_refused_in_plain_words(text: str, place: str) -> None:
    with pytest.raises(GraphError) as refused:
        parse(text, file="g.yaml")
    assert str(refused.value).startswith(place)


@pytest.mark.parametrize(
    "override", ["name=${", "steps=[", "steps=\x00", "prompts.kind=[1]", "prompts.kind={a: b}"]
)
def test_an_override_of_any_kind_is_refused_in_plain_words(override: str) -> None:
    with pytest.raises(GraphError) as refused:
        parse(TEXT, file="g.yaml", overrides=[override])
    assert str(refused.value).startswith(f"override {override}: ")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_bytes(b"name: \xff")
    with pytest.raises(GraphError, match=r"g\.yaml: cannot be read: .*; give a text file in UTF-8$"):
        load(str(path))
