"""What of a node's options may change on a live run: what nothing but its own replicas is told.

Invariant: an upgrade leaves the tables, and what every other service is told, as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from headrace.dataflow.check import check
from headrace.dataflow.language.problems import errors
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.dataflow.language.tree import to_tree
from headrace.dataflow.planning.precision import settled
from headrace.dataflow.running.asks import Refusal
from headrace.dataflow.running.current import Current

RESERVED = ("cpus", "gpus", "resources", "placement")
"""What is reserved for a node when the run is launched."""


def upgraded(current: Current, given: GraphSpec, node: str) -> GraphSpec:
    """The graph that runs, with the options that `given` has for a node.

    Raises Refusal with the keys that stand in the way.
    """
    given = settled(given)
    if node not in given.nodes:
        raise Refusal(f"the graph given has no node {node!r}; there are {', '.join(given.nodes)}")
    _require_same_elsewhere(current, given, node)
    new, now = given.nodes[node], current.spec.nodes[node]
    if new.options.replicas == current.began.nodes[node].options.replicas:
        new = replace(new, options=replace(new.options, replicas=now.options.replicas))
    changed = _changed(now, new)
    if "replicas" in changed:
        raise Refusal(f"nodes.{node}.replicas: an upgrade keeps their number; use `headrace scale`")
    if reserved := [key for key in changed if key in RESERVED]:
        keys = ", ".join(f"nodes.{node}.{key}" for key in reserved)
        raise Refusal(f"{keys}: reserved when the run is launched; stop it, and go on with it changed")
    spec = _with(current.spec, node, new)
    current.require(spec)
    if bound := list(_bound(current, spec, node, changed)):
        keys = ", ".join(f"nodes.{node}.{key}" for key in bound)
        raise Refusal(
            f"{keys}: other services or the tables depend on it, so that it cannot change on a live run; "
            "stop the run, and start another"
        )
    return spec


def _changed(now: NodeSpec, new: NodeSpec) -> list[str]:
    edges = [key for key in ("kind", "inputs", "policy") if getattr(now, key) != getattr(new, key)]
    if edges:
        return edges
    names = (field.name for field in fields(now.options))
    return [name for name in names if getattr(now.options, name) != getattr(new.options, name)]


def _require_same_elsewhere(current: Current, given: GraphSpec, node: str) -> None:
    """Elsewhere it may stand as it runs now, or as it was launched."""
    told, known = _leaves(given, node), [_leaves(spec, node) for spec in (current.spec, current.began)]
    names = dict.fromkeys(name for leaves in (told, *known) for name in leaves)
    other = [name for name in names if all(told.get(name) != leaves.get(name) for leaves in known)]
    if other:
        raise Refusal(
            f"{', '.join(other)}: the graph given is another there than the one that runs, and an upgrade of "
            f"{node} changes nodes.{node} alone; begin with a copy of the run's graph.yaml"
        )


def _leaves(spec: GraphSpec, node: str) -> dict[str, Any]:
    """Values by their dotted keys, but for those of a node."""
    tree = to_tree(spec, resolved=True)
    tree["nodes"] = {name: each for name, each in tree["nodes"].items() if name != node}
    return dict(_walk(tree, ()))


def _walk(tree: Mapping[str, Any], above: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _walk(value, (*above, str(key)))
        else:
            yield ".".join((*above, str(key))), value


def _bound(current: Current, spec: GraphSpec, node: str, changed: Sequence[str]) -> Iterator[str]:
    """The keys that more than the node's own replicas hear of."""
    if _beyond(current, spec, node) == _beyond(current, current.spec, node):
        return
    if len(changed) == 1 or {"kind", "inputs", "policy"} & set(changed):
        yield from changed
        return
    found = [key for key in changed if _is_bound(current, spec, node, key)]
    yield from found or changed


def _is_bound(current: Current, spec: GraphSpec, node: str, key: str) -> bool:
    alone = current.with_options(node, **{key: getattr(spec.nodes[node].options, key)})
    if errors(check(alone, cluster=current.cluster)):
        return False
    return _beyond(current, alone, node) != _beyond(current, current.spec, node)


def _beyond(current: Current, spec: GraphSpec, node: str) -> tuple[Any, Any]:
    """The tables, and what the other services are told; the cores are shared out when the run is launched."""
    others = {name: each for name, each in current.told(spec).items() if name != node}
    return dict(current.plan(spec).tables), {name: replace(each, threads=1) for name, each in others.items()}


def _with(spec: GraphSpec, node: str, new: NodeSpec) -> GraphSpec:
    return replace(spec, nodes={**spec.nodes, node: new})
