"""What each node does in its tables: the columns that it reads and writes.

Beside those of the services there are marks, of filters and joins; see `services/columns.py`.
"""

from collections.abc import Iterable
from dataclasses import replace

from headrace.dataflow.language.spec import GraphSpec, NodeOptions
from headrace.dataflow.planning.topology import (
    is_service,
    leased_table,
    members,
    order,
    table_of,
    tables,
    upstream,
)
from headrace.services.columns import joined, passed
from headrace.services.kinds import KINDS, Reads, kind_of
from headrace.services.options import BranchOptions, SinkOptions
from headrace.services.texts import TEXTS
from headrace.transferqueue.schema import Column


def marks(spec: GraphSpec, name: str) -> tuple[Column, ...]:
    """Marks that a node writes into the table that it leases from."""
    kind = spec.nodes[name].kind
    mark = {"filter": passed, "join": joined}.get(kind)
    return () if mark is None else (Column(name=mark(name), dtype="bool"),)


def reads(spec: GraphSpec, name: str) -> Reads:
    """Columns without which a node gets no row, those of transforms included."""
    node = spec.nodes[name]
    wanted = dict(kind_of(node.kind).reads(resolved(spec, name)))
    if copies(spec, name):
        wanted |= _asked_below(spec, name)
    return wanted


def resolved(spec: GraphSpec, name: str) -> NodeOptions:
    """A node's options with what the graph says: a sink that names no columns keeps all that its inputs
    write, beside the texts."""
    options = spec.nodes[name].options
    if not isinstance(options, SinkOptions) or options.columns:
        return options
    written = (column.name for each in spec.nodes[name].inputs for column in writes(spec, each))
    return replace(options, columns=tuple(dict.fromkeys((*TEXTS, *written))))


def may_read(spec: GraphSpec, name: str) -> Reads:
    """As `reads`, with the columns that it reads only where they are written."""
    node = spec.nodes[name]
    return {**reads(spec, name), **kind_of(node.kind).takes(node.options)}


def writes(spec: GraphSpec, name: str) -> tuple[Column, ...]:
    """Columns that a node writes into its own table: for a branch the one that it starts, for a join its
    parent's."""
    node = spec.nodes[name]
    if not copies(spec, name):
        return kind_of(node.kind).writes(node.options)
    parent = {column.name: column for column in columns(spec, str(leased_table(spec, name)))}
    return tuple(parent[column] for column in reads(spec, name) if column in parent)


def columns(spec: GraphSpec, table: str) -> tuple[Column, ...]:
    """Columns of a table as the graph's nodes know them, transforms' included; marks are not."""
    return tuple(column for writer in tables(spec)[table].writers for column in writes(spec, writer))


def copies(spec: GraphSpec, name: str) -> bool:
    """Whether a node is a branch that hands rows on as they are."""
    options = spec.nodes[name].options
    return isinstance(options, BranchOptions) and options.function is None


def writers_of(column: str) -> tuple[str, ...]:
    """Built-in kinds of node that write a column with the options that they have by themselves."""
    fixed = {"source", "rollout", "reward", "reference", "teacher", "critic"}
    named = {"reward": ("reward", "reward_invalid", "reward_parts")}
    return tuple(
        kind
        for kind in KINDS
        if kind in fixed and column in (named.get(kind) or [c.name for c in KINDS[kind].writes(None)])
    )


def fused(spec: GraphSpec, name: str) -> tuple[str, ...]:
    """Transforms that run within a node, in the order of the flow: those that give what it reads."""
    above, needed = upstream(spec, name), set(may_read(spec, name))
    inside: list[str] = []
    for other in reversed(order(spec)):
        if other in above and spec.nodes[other].kind == "transform":
            made = {column.name for column in writes(spec, other)}
            if made & needed:
                inside.append(other)
                needed = (needed - made) | set(reads(spec, other))
    return tuple(reversed(inside))


def leased_columns(spec: GraphSpec, name: str) -> tuple[str, ...]:
    """Columns of the table that a node's task reads: its own, what transforms within it read, and marks."""
    inside = fused(spec, name)
    wanted: dict[str, None] = dict.fromkeys(may_read(spec, name))
    for transform in inside:
        wanted |= dict.fromkeys(reads(spec, transform))
    held = {column.name for column in held_columns(spec, str(leased_table(spec, name)))}
    return tuple(column for column in (*wanted, *waits_for(spec, name)) if column in held)


def held_columns(spec: GraphSpec, table: str) -> tuple[Column, ...]:
    """Columns that a table holds: those that services write into it, and marks."""
    shape = tables(spec)[table]
    written = [column for name in shape.writers if is_service(spec, name) for column in writes(spec, name)]
    return (*written, *(mark for name in shape.readers for mark in marks(spec, name)))


def waits_for(spec: GraphSpec, name: str) -> tuple[str, ...]:
    """Marks that a node waits for before it gets a row."""
    above = upstream(spec, name)
    table = leased_table(spec, name)
    marked = [passed(other) for other in above if _filters(spec, other, table)]
    if spec.nodes[name].kind == "trainer" and table is not None:
        marked += [joined(other) for other in members(spec, table, "join")]
    return tuple(marked)


def _filters(spec: GraphSpec, name: str, table: str | None) -> bool:
    return spec.nodes[name].kind == "filter" and table_of(spec, name) == table


def _asked_below(spec: GraphSpec, branch: str) -> Reads:
    """Columns that readers of a branch's copies ask for and do not write themselves."""
    readers = tables(spec)[branch].readers
    made = {column.name for reader in readers for column in writes(spec, reader)}
    above = {column.name for node in upstream(spec, branch) for column in writes(spec, node)}
    asked: dict[str, None] = dict.fromkeys(_asked(spec, readers))
    return {column: None for column in asked if column not in made and column in above}


def _asked(spec: GraphSpec, readers: Iterable[str]) -> Iterable[str]:
    return (column for reader in readers for column in may_read(spec, reader))
