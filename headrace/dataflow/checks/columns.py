"""Whether every column that a node reads is written by exactly one node before it, as the type that it reads,
and is read at all."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from headrace.dataflow.language.problems import Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.dataflow.planning.roles import marks, may_read, reads, writers_of, writes
from headrace.dataflow.planning.topology import downstream, leased_table, table_of, tables, upstream
from headrace.services.kinds import KINDS
from headrace.services.options import SourceOptions, TrainerOptions
from headrace.services.source.hearing import READS

READERS = {
    "reference": "set the trainer's kl_coef above 0",
    "teacher": "give the trainer an algorithm that learns from one, such as opd,",
    "critic": "set the trainer's advantage to gae and its critic to node",
}
"""How a trainer comes to read what a model scores, by the kind of the scorer."""

DECLARED = ("transform",)
"""Kinds whose columns are named in the graph one by one, so that each is to be read."""


def check_columns(spec: GraphSpec) -> Iterator[Problem]:
    """Missing, mistyped, doubly written and unread columns."""
    for name in spec.nodes:
        written = _written_above(spec, name)
        yield from _missing(spec, name, written)
        yield from _mistyped(spec, name, written)
    yield from _written_twice(spec)
    yield from _unread(spec)


def _written_above(spec: GraphSpec, name: str) -> dict[str, tuple[str, str]]:
    """(node, type) by the columns that a row has when it reaches a node."""
    table = leased_table(spec, name)
    return {
        column.name: (source, column.dtype)
        for source in upstream(spec, name)
        if table_of(spec, source) == table
        for column in writes(spec, source)
    }


def _missing(spec: GraphSpec, name: str, written: Mapping[str, object]) -> Iterator[Problem]:
    lacking = defaultdict(list)
    for column in reads(spec, name):
        if column not in written:
            lacking[writers_of(column)].append(column)
    for kinds, names in lacking.items():
        yield _lacks(spec, name, kinds[0], names) if kinds else _unknown(spec, name, names, written)


def _mistyped(spec: GraphSpec, name: str, written: Mapping[str, tuple[str, str]]) -> Iterator[Problem]:
    for column, asked in may_read(spec, name).items():
        writer, made = written.get(column, ("", asked))
        if asked is not None and made != asked:
            yield Problem(
                path=("nodes", name),
                wrong=f"it reads {column} as {asked}, and {writer} writes it as {made}",
                way_out=f"let {writer} write {asked}, or another column",
            )


def _lacks(spec: GraphSpec, name: str, kind: str, columns: list[str]) -> Problem:
    reader = spec.nodes[name]
    above = listing(upstream(spec, name))
    others = [other for other, candidate in spec.nodes.items() if candidate.kind == kind]
    near = [other for other in others if table_of(spec, other) == leased_table(spec, name)]
    way_out = f"add '{near[0]}' to the inputs" if near else f"add a {kind} node and name it in the inputs"
    if near and near[0] in downstream(spec, name):
        way_out = (
            f"'{near[0]}' comes after it: read from another than '{name}' there, then add it to the inputs"
        )
    wrong = f"a {reader.kind} reads {listing(columns)}, which none of {above} writes"
    if kind in READERS and isinstance(reader.options, TrainerOptions):
        wrong = f"{_needs(reader.options, kind, columns)}, and none of {above} writes it"
    if kind == "reference":
        way_out += ", or set kl_coef: 0"
    if kind == "critic":
        way_out += ", or set critic: head"
    return Problem(path=("nodes", name, "inputs"), wrong=wrong, way_out=way_out)


def _needs(trainer: TrainerOptions, kind: str, columns: list[str]) -> str:
    algorithm = trainer.algorithm
    because = (
        f" because kl_coef is {_figure(getattr(algorithm, 'kl_coef', None))}" if kind == "reference" else ""
    )
    return f"{algorithm.kind} needs {listing(columns)}{because}"


def _figure(coefficient: object) -> str:
    return f"{coefficient:g}" if isinstance(coefficient, float | int) else "annealed above 0"


def _unknown(spec: GraphSpec, name: str, columns: list[str], written: Mapping[str, object]) -> Problem:
    node = spec.nodes[name]
    if isinstance(node.options, TrainerOptions):
        return Problem(
            path=("nodes", name, "algorithm"),
            wrong=f"{node.options.algorithm.kind} reads {listing(columns)}, which no kind of node writes",
            way_out="choose an algorithm or a credit that needs none of them",
        )
    return Problem(
        path=("nodes", name),
        wrong=f"it reads {listing(columns)}, which none of {listing(upstream(spec, name))} writes",
        allowed=listing(written),
        way_out=suggestion(columns[0], written, otherwise="name the node that writes it in the inputs"),
    )


def _written_twice(spec: GraphSpec) -> Iterator[Problem]:
    for table, shape in tables(spec).items():
        writers: dict[str, list[str]] = defaultdict(list)
        for member in shape.writers:
            for column in writes(spec, member):
                writers[column.name].append(member)
        for member in shape.readers:
            for column in marks(spec, member):
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
                way_out=f"remove one of them{_another_column(spec, names, columns)}, or use replicas of "
                f"'{names[0]}' for more throughput",
            )


def _another_column(spec: GraphSpec, names: tuple[str, ...], columns: list[str]) -> str:
    """Where both may be told what to call what they write."""
    named = all(hasattr(spec.nodes[name].options, "column") for name in names)
    return f", give one another column (it is {columns[0]} now)" if named else ""


def _unread(spec: GraphSpec) -> Iterator[Problem]:
    for table, shape in tables(spec).items():
        read = {column for member in shape.readers for column in may_read(spec, member)}
        source = spec.nodes[table].options
        if isinstance(source, SourceOptions) and source.hears:
            read |= set(READS)
        for name in shape.writers:
            node = spec.nodes[name]
            made = [column.name for column in writes(spec, name)]
            unread = [column for column in made if column not in read]
            if unread and (len(unread) == len(made) or _each_is_declared(node)):
                yield _without_effect(name, node, unread)


def _each_is_declared(node: NodeSpec) -> bool:
    return node.kind in DECLARED or node.kind not in KINDS


def _without_effect(name: str, node: NodeSpec, unread: list[str]) -> Problem:
    if node.kind in READERS:
        return Problem(
            path=("nodes", name),
            wrong=f"a {node.kind} without effect: nobody reads {listing(unread)}",
            way_out=f"remove the node, or {READERS[node.kind]} and name it in its inputs",
        )
    return Problem(
        path=("nodes", name),
        wrong=f"nobody reads {listing(unread)}",
        way_out="name the node in the inputs of one that does, or remove it",
        severity="warning",
    )
