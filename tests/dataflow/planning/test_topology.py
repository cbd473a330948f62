"""The shape of a graph, however many ways lead through it."""

from headrace.dataflow import Graph
from headrace.dataflow.planning.topology import downstream, leased_table, tables, upstream

RUNGS = 60


def test_a_ladder_of_transforms_has_each_node_once() -> None:
    """Each rung reads both nodes of the rung before: 2 ** 60 ways lead to the last one."""
    graph = Graph("ladder", steps=1)
    actor = graph.policy("actor", model="tiny-copier")
    before = [graph.rollout(graph.source(dataset="copy"), policy=actor)]
    for rung in range(RUNGS):
        before = [
            graph.transform(
                before, name=f"{side}{rung}", function="m:f", columns=("x",), writes={f"{side}{rung}": "int8"}
            )
            for side in ("left", "right")
        ]
    spec = graph.spec()
    last = f"left{RUNGS - 1}"
    assert len(upstream(spec, last)) == 2 * (RUNGS - 1) + 2
    assert len(downstream(spec, "prompts")) == 2 * RUNGS + 1
    assert leased_table(spec, last) == "prompts"
    assert len(tables(spec)["prompts"].readers) == 2 * RUNGS + 1
