"""The shape of a graph: who comes before whom, which nodes share a table, whose policy a node serves.

A source and everything that its rows flow through make one table, named after the source. The functions
ask for a graph whose inputs exist and which has no cycle (`checks/structure.py` sees to it), except
`order`, which finds the cycle.
"""

from graphlib import CycleError, TopologicalSorter

from headrace.dataflow.language.spec import GraphSpec


def order(spec: GraphSpec) -> tuple[str, ...]:
    """Names of the nodes, each after its inputs. Raises graphlib.CycleError."""
    return tuple(TopologicalSorter({name: node.inputs for name, node in spec.nodes.items()}).static_order())


def cycle(spec: GraphSpec) -> tuple[str, ...]:
    """Nodes of a cycle in the order of the flow, the first one repeated at the end; () when there is none."""
    try:
        order(spec)
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def upstream(spec: GraphSpec, name: str) -> dict[str, None]:
    """Names of all nodes whose columns reach `name`, itself left out, as an ordered set."""
    found: dict[str, None] = {}
    for source in spec.nodes[name].inputs:
        found |= {source: None} | upstream(spec, source)
    return found


def sources(spec: GraphSpec, name: str) -> tuple[str, ...]:
    """The sources whose rows reach a node, itself included."""
    return tuple(node for node in (*upstream(spec, name), name) if spec.nodes[node].kind == "source")


def tables(spec: GraphSpec) -> dict[str, tuple[str, ...]]:
    """The nodes of each table, in the order of the flow, by the name of the table's source."""
    flow = order(spec)
    return {
        source: tuple(name for name in flow if source in sources(spec, name))
        for source in spec.of_kind("source")
    }


def policy_of(spec: GraphSpec, name: str) -> str:
    """The policy that a node serves: its own, or that of the rollout in its table."""
    node = spec.nodes[name]
    if node.policy is not None:
        return node.policy
    (table,) = sources(spec, name)
    return next(
        policy
        for member in tables(spec)[table]
        if (policy := spec.nodes[member].policy) is not None and spec.nodes[member].kind == "rollout"
    )
