"""A kind of node of a user's own, by its path: every part of the language knows its keys."""

from pathlib import Path

import pytest

from headrace.dataflow import Graph
from headrace.dataflow.cli import main
from headrace.dataflow.language.parse import load, parse, to_yaml
from headrace.dataflow.language.problems import GraphError

LOUD = '''\
from dataclasses import dataclass

from headrace.services.options import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class LoudOptions(Placed):
    """How loud an answer is."""

    factor: float = 2.0
    """What its length is multiplied by."""
    batch: int = 8
    """Rows at once."""


class Loud:
    Options = LoudOptions
    has_policy = True
    reads = {"response_ids": "list<int32>"}
    writes = {"loudness": "float64"}

    async def setup(self, context): ...

    async def process(self, rows):
        yield

    async def close(self): ...
'''

GRAPH = """\
name: loud
steps: 10
policies: {actor: {model: tiny-copier}}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor}
  loud: {kind: 'loudness.py:Loud', inputs: [answers], policy: actor, factor: 3, batch: 2}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loudness.py").write_text(LOUD)
    Path("loud.yaml").write_text(GRAPH)


def test_yaml_and_builder_write_the_same_node() -> None:
    spec = load("loud.yaml").spec
    assert parse(to_yaml(spec)).spec == spec
    assert Graph.of(spec).spec() == spec
    graph = Graph("loud", steps=10)
    actor = graph.policy("actor", model="tiny-copier")
    answers = graph.rollout(graph.source(dataset="copy"), policy=actor)
    graph.node("loudness.py:Loud", "loud", inputs=answers, policy=actor, factor=3, batch=2)
    assert graph.spec() == spec


def test_overrides_and_includes_know_its_keys() -> None:
    spec = load("loud.yaml", ["loud.batch=null", "loud.factor=4", "loud.optimizer.lr=0.5"]).spec
    assert (spec.nodes["loud"].options.batch, spec.nodes["loud"].options.factor) == (8, 4.0)
    assert spec.policies["actor"].optimizer.lr == 0.5
    outer = "include: [{graph: loud.yaml, as: my}]\nnodes: {my_loud: {batch: null}}"
    node = parse(outer).spec.nodes["my_loud"]
    assert (node.kind, node.inputs, node.policy) == ("loudness.py:Loud", ("my_answers",), "my_actor")
    assert (node.options.batch, node.options.factor) == (8, 3.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch: 2", "bathc: 2", "did you mean 'batch'?"),
        ("factor: 3", "factor: much", "set factor: What its length is multiplied by"),
        ("loudness.py:Loud", "loudness.py:Load", "it has Loud, LoudOptions"),
        ("loudness.py:Loud", "nowhere.py:Loud", "there is no file"),
    ],
)
def test_what_is_wrong_with_it_is_told(old: str, new: str, message: str) -> None:
    with pytest.raises(GraphError) as refused:
        parse(GRAPH.replace(old, new), file="loud.yaml")
    (problem,) = map(str, refused.value.problems)
    assert problem.startswith("loud.yaml:7: nodes.loud.")
    assert message in problem


def test_a_class_that_is_not_found_is_told_whatever_is_set_on_it() -> None:
    text = GRAPH.replace("loudness.py", "nowhere.py")
    for override in ("loud.batch=null", "loud.optimizer.lr=1", "loud.batch=3"):
        with pytest.raises(GraphError, match="there is no file"):
            parse(text, overrides=[override])


def test_its_keys_are_told_as_those_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "loudness.py:Loud"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("loudness.py:Loud: How loud an answer is.\n  inputs: list of text, required\n")
    assert "  factor: number, default 2\n      What its length is multiplied by.\n" in told
    assert main(["keys", "nowhere.py:Loud"]) == 2
    assert "there is no file" in capsys.readouterr().err
