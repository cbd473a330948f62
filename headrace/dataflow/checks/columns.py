"""Whether every column that a node reads is written by exactly one node before it, and is read at all."""

from collections import defaultdict
from collections.abc import Iterator

from headrace.dataflow.language.problems import Problem, listing
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.dataflow.planning.roles import reads, writers_of, writes
from headrace.dataflow.planning.topology import tables, upstream
from headrace.services.options import TrainerOptions

READERS = {
    "reference": "set the trainer's kl_coef above 0",
    "teacher": "give the trainer an algorithm that learns from one, such as opd,",
    "critic": "set the trainer's advantage to gae and its critic to node",
}
"""How a trainer comes to read what a model scores, by the kind of the scorer."""


def check_columns(spec: GraphSpec) -> Iterator[Problem]:
    """Missing, doubly written and unread columns."""
    yield from _missing(spec)
    yield from _written_twice(spec)
    yield from _unread(spec)


def _missing(spec: GraphSpec) -> Iterator[Problem]:
    for name, node in spec.nodes.items():
        above = upstream(spec, name)
        written = {column.name for source in above for column in writes(spec.nodes[source])}
        lacking = defaultdict(list)
        for column in reads(node):
            if column not in written:
                lacking[writers_of(column)].append(column)
        for kinds, names in lacking.items():
            yield _lacks(spec, name, kinds[0], names) if kinds else _unknown(name, node, names)


def _lacks(spec: GraphSpec, name: str, kind: str, columns: list[str]) -> Problem:
    reader = spec.nodes[name]
    who = f"a {reader.kind}" + (" whose kl_coef is above 0" if kind == "reference" else "")
    if kind in ("teacher", "critic") and isinstance(reader.options, TrainerOptions):
        who = reader.options.algorithm.kind
    others = [other for other, candidate in spec.nodes.items() if candidate.kind == kind]
    way_out = f"add '{others[0]}' to the inputs" if others else f"add a {kind} node and name it in the inputs"
    if kind == "reference":
        way_out += ", or set kl_coef: 0"
    if kind == "critic":
        way_out += ", or set critic: head"
    return Problem(
        path=("nodes", name, "inputs"),
        wrong=f"{who} reads {listing(columns)}, which none of {listing(upstream(spec, name))} writes",
        way_out=way_out,
    )


def _unknown(name: str, node: NodeSpec, columns: list[str]) -> Problem:
    who = node.options.algorithm.kind if isinstance(node.options, TrainerOptions) else f"a {node.kind}"
    return Problem(
        path=("nodes", name, "algorithm"),
        wrong=f"{who} reads {listing(columns)}, which no kind of node writes",
        way_out="choose an algorithm or a credit that needs none of them",
    )


def _written_twice(spec: GraphSpec) -> Iterator[Problem]:
    for table, members in tables(spec).items():
        writers: dict[str, list[str]] = defaultdict(list)
        for member in members:
            for column in writes(spec.nodes[member]):
                writers[column.name].append(member)
        clashes: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for column, names in writers.items():
            if len(names) > 1:
                clashes[tuple(names)].append(column)
        for names, columns in clashes.items():
            yield Problem(
                path=("nodes", names[-1]),
                wrong=f"{' and '.join(names)} both write {listing(columns)} of table '{table}'",
                allowed="one writer for each column",
                way_out=f"remove one of them, or use replicas of '{names[0]}' for more throughput",
            )


def _unread(spec: GraphSpec) -> Iterator[Problem]:
    for members in tables(spec).values():
        read = {column for member in members for column in reads(spec.nodes[member])}
        for name in members:
            made = [column.name for column in writes(spec.nodes[name])]
            unread = [column for column in made if column not in read]
            kind = spec.nodes[name].kind
            if unread and kind in READERS:
                yield Problem(
                    path=("nodes", name),
                    wrong=f"a {kind} without effect: nobody reads {listing(unread)}",
                    way_out=f"remove the node, or {READERS[kind]} and name it in its inputs",
                )
            elif unread:
                yield Problem(
                    path=("nodes", name),
                    wrong=f"nobody reads {listing(unread)}",
                    way_out="name the node in the inputs of one that does, or remove it",
                    severity="warning",
                )
