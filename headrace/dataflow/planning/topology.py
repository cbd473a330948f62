"""The shape of a graph: who comes before whom, which rows a node works on, whose policy it serves.

A table begins at a node that starts one (source, branch) and has its name. A join leads back from a branch's
table to the one that the branch reads. The functions ask for a graph whose inputs exist and which has no
cycle (`checks/structure.py` sees to it), except `order`, which finds the cycle; those that speak of *the*
table of a node ask for one in which rows of several tables never meet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter

from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.services.kinds import kind_of

Structure = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Name, kind and inputs of every node: all that the shape of a graph depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One table: the node that starts it, who writes its columns, who reads its rows; in flow order."""

    name: str
    parent: str | None
    """Table that its rows come from; None: from a data set."""
    writers: tuple[str, ...]
    readers: tuple[str, ...]


@dataclass(slots=True)
class _Layout:
    """What is known of every node, by its name, once the nodes before it have been gone through."""

    order: tuple[str, ...]
    leased: dict[str, tuple[str, ...]] = field(default_factory=dict)
    written: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, Shape] = field(default_factory=dict)


@lru_cache(maxsize=32)
def _laid_out(structure: Structure) -> _Layout:
    """Raises graphlib.CycleError."""
    kinds = {name: kind for name, kind, _ in structure}
    inputs = {name: sources for name, _, sources in structure}
    layout = _Layout(tuple(TopologicalSorter(inputs).static_order()))
    for name in layout.order:
        met = (table for source in inputs[name] for table in layout.written[source])
        leased = layout.leased[name] = tuple(dict.fromkeys(met))
        if kind_of(kinds[name]).starts_table:
            layout.written[name] = (name,)
        elif kinds[name] == "join":
            back = (table for branch in leased for table in layout.leased[branch])
            layout.written[name] = tuple(dict.fromkeys(back))
        else:
            layout.written[name] = leased
    for start in filter(lambda name: kind_of(kinds[name]).starts_table, layout.order):
        layout.tables[start] = Shape(
            name=start,
            parent=next(iter(layout.leased[start]), None),
            writers=tuple(name for name in layout.order if start in layout.written[name]),
            readers=tuple(name for name in layout.order if start in layout.leased[name]),
        )
    return layout


def _layout(spec: GraphSpec) -> _Layout:
    return _laid_out(tuple((name, node.kind, node.inputs) for name, node in spec.nodes.items()))


def order(spec: GraphSpec) -> tuple[str, ...]:
    """Names of the nodes, each after its inputs. Raises graphlib.CycleError."""
    return _layout(spec).order


def cycle(spec: GraphSpec) -> tuple[str, ...]:
    """Nodes of a cycle in the order of the flow, the first one repeated at the end; () when there is none."""
    try:
        TopologicalSorter({name: node.inputs for name, node in spec.nodes.items()}).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def leased_tables(spec: GraphSpec, name: str) -> tuple[str, ...]:
    """Tables whose rows a node's inputs give it: one, in a graph without errors; none for a source."""
    return _layout(spec).leased[name]


def written_tables(spec: GraphSpec, name: str) -> tuple[str, ...]:
    """Tables that a node's columns stand in: one, in a graph without errors; none for an eval."""
    return _layout(spec).written[name]


def leased_table(spec: GraphSpec, name: str) -> str | None:
    """The table whose rows a node leases; None: it leases none."""
    return next(iter(leased_tables(spec, name)), None)


def table_of(spec: GraphSpec, name: str) -> str | None:
    """The table that a node's columns stand in; None for an eval."""
    return next(iter(written_tables(spec, name)), None)


def tables(spec: GraphSpec) -> dict[str, Shape]:
    """Every table by its name, a branch's after the one that it reads."""
    return dict(_layout(spec).tables)


def is_service(spec: GraphSpec, name: str) -> bool:
    """Whether a node is a process; a transform runs within others."""
    return kind_of(spec.nodes[name].kind).is_service


def services(spec: GraphSpec) -> dict[str, NodeSpec]:
    """The nodes that are processes, in the graph's order."""
    return {name: node for name, node in spec.nodes.items() if is_service(spec, name)}


def upstream(spec: GraphSpec, name: str) -> dict[str, None]:
    """Nodes whose columns a row that reaches `name` has for certain, as an ordered set.

    What comes back through a join was branched off from rows that had passed what the branch reads.
    """
    found: dict[str, None] = {}

    def follow(node: str) -> None:
        for source in spec.nodes[node].inputs:
            if source in found:
                continue
            found[source] = None
            if spec.nodes[source].kind == "join":
                for branch in leased_tables(spec, source):
                    follow(branch)
            elif not kind_of(spec.nodes[source].kind).starts_table:
                follow(source)

    follow(name)
    return found


def downstream(spec: GraphSpec, name: str) -> dict[str, None]:
    """Every node that needs what `name` makes, over all tables, as an ordered set."""
    found: dict[str, None] = {}

    def follow(node: str) -> None:
        for other, reader in spec.nodes.items():
            if node in reader.inputs and other not in found:
                found[other] = None
                follow(other)

    follow(name)
    return found


def members(spec: GraphSpec, table: str, kind: str) -> tuple[str, ...]:
    """Nodes of one kind that lease rows of a table."""
    return tuple(name for name in tables(spec)[table].readers if spec.nodes[name].kind == kind)


def trainer_on(spec: GraphSpec, table: str) -> str | None:
    """The trainer that learns from a table's rows; None: nobody does."""
    return next(iter(members(spec, table, "trainer")), None)


def answering(spec: GraphSpec, table: str) -> str | None:
    """The rollout that answers a table's prompts: its own, or where rows are copied, that of the parent."""
    own = members(spec, table, "rollout")
    parent = leased_table(spec, table)
    if own or parent is None:
        return own[0] if own else None
    return answering(spec, parent)


def policy_of(spec: GraphSpec, name: str) -> str:
    """The policy that a node serves: its own, else that which answers the rows that it makes or reads."""
    node = spec.nodes[name]
    if node.policy is not None:
        return node.policy
    table = name if kind_of(node.kind).starts_table else leased_table(spec, name)
    rollout = None if table is None else answering(spec, table)
    assert rollout is not None, f"{name} has no rollout: checks/structure.py lets none pass"
    return str(spec.nodes[rollout].policy)


def trainer_of(spec: GraphSpec, policy: str) -> str | None:
    """The trainer of a policy; None: nobody trains it."""
    return next((name for name, node in spec.of_kind("trainer").items() if node.policy == policy), None)


def weight_edges(spec: GraphSpec) -> Iterator[tuple[str, str, str]]:
    """(trainer, policy, reader) for every way that weights go while a run goes on."""
    for trainer, node in spec.of_kind("trainer").items():
        for reader, other in spec.of_kind("rollout", "teacher", "critic", "eval").items():
            if other.policy == node.policy:
                yield trainer, str(node.policy), reader
