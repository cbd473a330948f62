"""A graph survives its writings: YAML -> spec -> builder -> spec -> YAML is the identity."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.dataflow import Graph, GraphSpec
from headrace.dataflow.graph import Node, Policy
from headrace.dataflow.language.parse import parse, to_yaml
from headrace.dataflow.language.spec import OPTIONS
from headrace.dataflow.language.tree import from_tree, node_keys, to_tree
from headrace.services.options import CopyData, SourceOptions
from tests.dataflow.language.specs import graphs

random_graphs = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@random_graphs
@given(graphs(), st.booleans())
def test_yaml_gives_back_the_graph_that_wrote_it(spec: GraphSpec, resolved: bool) -> None:
    text = to_yaml(spec, resolved=resolved)
    again = parse(text).spec
    assert again == spec
    assert to_yaml(again, resolved=resolved) == text


def edges(graph: Graph, tree: dict[str, Any]) -> dict[str, Any]:
    """The handles that a node's plain mapping names, taken out of it."""
    handles: dict[str, Any] = {}
    if "inputs" in tree:
        handles["inputs"] = [Node(graph=graph, name=name, kind="source") for name in tree.pop("inputs")]
    if "policy" in tree:
        handles["policy"] = Policy(graph=graph, name=tree.pop("policy"))
    return handles


def rebuilt(spec: GraphSpec, *, by_name: bool) -> Graph:
    """The graph, by the calls that a person would write."""
    tree = to_tree(spec)
    policies, nodes = tree.pop("policies"), tree.pop("nodes")
    graph = Graph(tree.pop("name"), **tree)
    for name, options in policies.items():
        graph.policy(name, **options)
    for name, options in nodes.items():
        kind, handles = options.pop("kind"), edges(graph, options)
        if by_name:
            getattr(graph, kind)(name=name, **handles, **options)
        else:
            graph.node(kind, name, **handles, **options)
    return graph


@random_graphs
@given(graphs(), st.booleans())
def test_the_builder_gives_what_the_yaml_gives(spec: GraphSpec, by_name: bool) -> None:
    text = to_yaml(spec)
    graph = rebuilt(parse(text).spec, by_name=by_name)
    assert graph.spec() == spec
    assert graph.to_yaml() == text


@random_graphs
@given(graphs())
def test_a_graph_of_a_spec_is_that_spec(spec: GraphSpec) -> None:
    assert Graph.of(spec).spec() == spec


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_builder_has_a_method_for_every_kind_of_node(kind: str) -> None:
    method = getattr(Graph, kind)
    arguments = set(method.__annotations__)
    assert arguments >= {"inputs", "policy"} & set(node_keys(kind))
    assert method.__doc__


def test_a_tree_is_a_spec_and_back() -> None:
    spec, problems = from_tree(
        {
            "name": "copy",
            "steps": 1,
            "policies": {"actor": {"model": "tiny-copier"}},
            "nodes": {"prompts": {"kind": "source", "dataset": "copy"}},
        }
    )
    assert problems == []
    assert spec is not None
    assert spec.nodes["prompts"].options == SourceOptions(dataset=CopyData())
    assert to_tree(spec) == {
        "name": "copy",
        "steps": 1,
        "policies": {"actor": {"model": "tiny-copier"}},
        "nodes": {"prompts": {"kind": "source", "dataset": "copy"}},
    }
