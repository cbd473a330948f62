"""Composition: what a graph that includes others is, and where its faults are said to be."""

from pathlib import Path

import pytest

from headrace.dataflow import Graph
from headrace.dataflow.language.parse import Document, load, parse, to_yaml
from headrace.dataflow.language.problems import GraphError
from headrace.dataflow.language.tree import to_tree

BASE = """\
name: base
steps: 10
staleness: 1
policies:
  actor: {model: tiny-copier, optimizer: {lr: 1e-4, betas: [0.9, 0.99]}}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor, max_new_tokens: 5}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn:
    kind: trainer
    inputs: [answers, scores]
    policy: actor
    algorithm: {kind: grpo, clip_low: 0.1}
    prompts_per_step: 8
"""

REFERENCE = """\
nodes:
  anchor: {kind: reference, inputs: [answers], policy: actor}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "parts" / "reference.yaml").write_text(REFERENCE)
    return tmp_path


def written(text: str, *overrides: str) -> Document:
    Path("g.yaml").write_text(text)
    return load("g.yaml", overrides)


def refusals(text: str, *overrides: str) -> list[str]:
    with pytest.raises(GraphError) as refused:
        written(text, *overrides)
    return str(refused.value).splitlines()


def test_a_graph_that_includes_another_is_that_graph(folder: Path) -> None:
    assert written("include: [base.yaml]").spec == parse(BASE).spec


def test_own_keys_lie_over_what_is_included_key_by_key(folder: Path) -> None:
    text = """\
include: [base.yaml, parts/reference.yaml]
name: mine
policies: {actor: {optimizer: {lr: 2e-4}}}
nodes:
  scores: {verifier: {exact_weight: 0.25}}
  learn: {inputs: [answers, scores, anchor], algorithm: {kl_coef: 0.1}}
"""
    whole = (
        BASE.replace("name: base", "name: mine").replace("1e-4", "2e-4").replace("inputs: [answers, s", "&")
    )
    whole = whole.replace("verifier: copy", "verifier: {kind: copy, exact_weight: 0.25}")
    whole = whole.replace("&cores]", "inputs: [answers, scores, anchor]")
    whole = whole.replace("clip_low: 0.1", "clip_low: 0.1, kl_coef: 0.1")
    assert written(text).spec == parse(whole + REFERENCE.removeprefix("nodes:\n")).spec


def test_a_null_takes_out_a_node_or_a_key_and_stays_where_null_is_a_value(folder: Path) -> None:
    text = """\
include: [base.yaml]
staleness: null
nodes:
  scores: null
  answers: {max_new_tokens: null}
  learn: {inputs: [answers], algorithm: {kind: ppo, value_clip: null}}
"""
    tree = to_tree(written(text).spec)
    assert "staleness" not in tree
    assert list(tree["nodes"]) == ["prompts", "answers", "learn"]
    assert tree["nodes"]["answers"] == {"kind": "rollout", "inputs": ["prompts"], "policy": "actor"}
    assert tree["nodes"]["learn"]["algorithm"] == {"kind": "ppo", "value_clip": None}


def test_a_mapping_of_another_kind_replaces_the_one_under_it(folder: Path) -> None:
    text = "include: [base.yaml]\nnodes: {learn: {algorithm: {kind: gspo, clip_high: 0.3}}}"
    assert to_tree(written(text).spec)["nodes"]["learn"]["algorithm"] == {"kind": "gspo", "clip_high": 0.3}


def test_a_prefix_goes_before_every_name_and_wherever_it_is_meant(folder: Path) -> None:
    Path("base.yaml").write_text(BASE.replace("clip_low: 0.1", "clip_low: '${policies.actor.optimizer.lr}'"))
    text = """\
include:
  - {graph: base.yaml, as: one, set: {learn.prompts_per_step: 4, trainer.optimizer.lr: 0.01}}
  - {graph: base.yaml, as: two}
  - {graph: parts/reference.yaml, as: two, set: {anchor.policy: two_actor, anchor.inputs: [two_answers]}}
name: pair
"""
    tree = to_tree(written(text).spec)
    assert list(tree["policies"]) == ["one_actor", "two_actor"]
    assert [policy["optimizer"]["lr"] for policy in tree["policies"].values()] == [0.01, 0.0001]
    assert tree["nodes"]["one_learn"] == {
        "kind": "trainer",
        "inputs": ["one_answers", "one_scores"],
        "policy": "one_actor",
        "algorithm": {"kind": "grpo", "clip_low": 0.01},
        "prompts_per_step": 4,
    }
    assert tree["nodes"]["two_learn"]["prompts_per_step"] == 8
    assert tree["nodes"]["two_anchor"] == {
        "kind": "reference",
        "inputs": ["two_answers"],
        "policy": "two_actor",
    }


def test_paths_start_at_the_file_that_includes_and_names_are_the_shipped_ones(folder: Path) -> None:
    Path("parts", "nested.yaml").write_text("include: [../base.yaml, reference.yaml]\nsteps: 3\n")
    spec = written("include: [parts/nested.yaml]\nseed: 5").spec
    assert (spec.steps, spec.seed, "anchor" in spec.nodes) == (3, 5, True)
    assert parse("include: [grpo_copy_cpu]").spec == load("grpo_copy_cpu").spec


def test_what_a_run_keeps_includes_nothing(folder: Path) -> None:
    spec = written("include: [base.yaml]").spec
    assert parse(to_yaml(spec, resolved=True)).spec == spec
    assert "include" not in to_yaml(spec)


def test_every_fault_is_told_with_the_file_and_line_that_wrote_it(folder: Path) -> None:
    Path("base.yaml").write_text(BASE.replace("prompts_per_step: 8", "prompts_per_stp: 8"))
    Path("parts", "reference.yaml").write_text(REFERENCE + "  extra: {kind: reword, inputs: [answers]}\n")
    text = """\
include:
  - graph: base.yaml
    as: one
    set:
      scores.verifier: copi
  - parts/reference.yaml
steps: many
"""
    assert [line.partition(": ")[0] for line in refusals(text, "one_answers.max_new_tokens=0")] == [
        "g.yaml:5",
        "g.yaml:7",
        "override one_answers.max_new_tokens=0",
        "base.yaml:15",
        "parts/reference.yaml:3",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "include: [bass.yaml]",
            "g.yaml:1: include.0: there is no file 'bass.yaml' and no shipped dataflow 'bass.yaml'",
        ),
        (
            "include: [grpo_copy_cpi]",
            "g.yaml:1: include.0: there is no file 'grpo_copy_cpi' and no shipped dataflow 'grpo_copy_cpi'",
        ),
        ("include: base.yaml", "g.yaml:1: include: got the text 'base.yaml' (allowed: a list)"),
        (
            "include:\n- graph: base.yaml\n  sett: {steps: 1}",
            "g.yaml:3: include.0.sett: unknown key 'sett' (allowed: graph, as, set); did you mean 'set'?",
        ),
        (
            "include:\n- graph: base.yaml\n  as: 2x",
            "g.yaml:3: include.0.as: got '2x' (allowed: a letter, then letters, digits, - and _)",
        ),
        (
            "include:\n- graph: base.yaml\n  set:\n    lern.threads: 2",
            "g.yaml:4: include.0.set.lern.threads: there is no key, node, policy or kind of node 'lern'",
        ),
        (
            "include: [round.yaml]",
            "round.yaml:1: include.0: the includes form a circle: g.yaml -> round.yaml -> g.yaml; "
            "take one of them out",
        ),
        ("include: [broken.yaml]", "broken.yaml:2: not YAML: "),
    ],
)
def test_an_include_that_cannot_be_is_refused(folder: Path, text: str, message: str) -> None:
    Path("round.yaml").write_text("include: [g.yaml]")
    Path("broken.yaml").write_text("a: [\nb: }")
    (refusal,) = refusals(text)
    assert refusal.startswith(message)


def test_the_faults_of_all_includes_are_told_together(folder: Path) -> None:
    text = "include: [bass.yaml, {graph: base.yaml, set: {lern.threads: 2}}]"
    assert [line.partition(": there")[0] for line in refusals(text)] == [
        "g.yaml:1: include.0",
        "g.yaml:1: include.1.set.lern.threads",
    ]


def test_the_builder_includes_what_the_yaml_does(folder: Path) -> None:
    text = """\
include:
  - {graph: base.yaml, as: one, set: {learn.prompts_per_step: 4}}
  - parts/reference.yaml
name: mine
staleness: 2
policies:
  actor: {model: tiny-copier}
nodes:
  answers: {kind: rollout, inputs: [one_prompts], policy: actor, fake: {note: '\\${steps}'}}
  more: {kind: reference, inputs: [anchor, one_answers], policy: one_actor}
"""
    graph = Graph("mine", staleness=2)
    one = graph.include("base.yaml", as_="one", set={"learn.prompts_per_step": 4})
    reference = graph.include(Path("parts", "reference.yaml"))
    actor = graph.policy("actor", model="tiny-copier")
    graph.rollout(one.nodes["prompts"], policy=actor, fake={"note": "${steps}"})
    inputs = [reference.nodes["anchor"], one.nodes["answers"]]
    graph.reference(inputs, policy=one.policies["actor"], name="more")
    assert graph.spec() == written(text).spec
    assert one.nodes["learn"].kind == "trainer"


def test_the_builder_refuses_names_that_an_include_has_and_says_whose_fault_it_is(folder: Path) -> None:
    graph = Graph("mine")
    graph.include("base.yaml")
    with pytest.raises(GraphError, match=r"nodes\.prompts: the name 'prompts' is taken"):
        graph.source(dataset="copy")
    other = Graph("mine")
    other.source(dataset="copy")
    with pytest.raises(GraphError, match=r"nodes\.prompts: the name 'prompts' is taken"):
        other.include("base.yaml")
    with pytest.raises(GraphError, match=r"include\.bass\.yaml: there is no file 'bass\.yaml'"):
        other.include("bass.yaml")
    Path("base.yaml").write_text(BASE.replace("verifier: copy", "verifier: copi"))
    late = Graph("mine")
    late.include("base.yaml")
    with pytest.raises(GraphError, match=r"^base\.yaml:9: nodes\.scores\.verifier: got the text 'copi'"):
        late.spec()


def test_a_prefix_reaches_the_policies_of_a_barrier(folder: Path) -> None:
    Path("base.yaml").write_text(BASE.replace("steps: 10", "steps: 10\nbarrier: [[actor, outsider]]"))
    spec = written("include: [{graph: base.yaml, as: one}]\npolicies: {outsider: {model: tiny-copier}}").spec
    assert spec.barrier == (("one_actor", "outsider"),)


def test_code_and_data_are_found_beside_the_file_that_names_them(folder: Path) -> None:
    Path("parts", "mine.py").write_text("def score(response, example): return 1.0")
    Path("parts", "data.jsonl").write_text('{"prompt": "a"}')
    part = BASE.replace("verifier: copy", "verifier: {kind: python, function: 'mine.py:score'}")
    part = part.replace("dataset: copy", "dataset: {kind: jsonl, path: data.jsonl}")
    Path("parts", "part.yaml").write_text(part)
    spec = written("include: [parts/part.yaml]").spec
    assert spec.nodes["scores"].options.verifier.function == f"{folder}/parts/mine.py:score"
    assert spec.nodes["prompts"].options.dataset.path == f"{folder}/parts/data.jsonl"
    graph = Graph("base", steps=10)
    graph.include("parts/part.yaml")
    assert graph.spec() == spec
