"""What of a graph is needed while some of its policies are trained to their end and others go on.

an unfinished trainer or eval ─► its inputs, and whoever writes what its rows wait for ─► theirs ─► …
a table that flows because of that ─► its sinks, and nodes of a user's own that write nothing ─► theirs
"""

from collections.abc import Collection, Iterable, Iterator

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.roles import leased_columns, marks, writes
from headrace.dataflow.planning.topology import leased_table, leased_tables, written_tables
from headrace.services.kinds import is_path, kind_of
from headrace.services.options import SourceOptions
from headrace.services.source.hearing import READS


def needed(spec: GraphSpec, unfinished: Collection[str]) -> set[str]:
    """Nodes without which the unfinished trainers and evals, or what keeps their rows, cannot go on.

    The trainer of a policy that answers for them is not among them: its weights stay when it has ended.
    """
    found = _with_sources(spec, unfinished)
    keeping = {name for name in spec.nodes if _only_keeps(spec, name)}
    while more := {name for name in keeping - found if leased_table(spec, name) in found}:
        found |= _with_sources(spec, more)
    return found


def to_start(spec: GraphSpec, unfinished: Collection[str]) -> set[str]:
    """Nodes that a launch runs: those needed, and trainers without a step to take whose policy's weights are
    asked for, or whose version others wait for at a barrier."""
    found = needed(spec, unfinished)
    policies = {spec.nodes[name].policy for name in found}
    learning = {spec.nodes[name].policy for name in unfinished}
    policies |= {each for group in spec.barrier if learning & set(group) for each in group}
    return found | {name for name, node in spec.of_kind("trainer").items() if node.policy in policies}


def _with_sources(spec: GraphSpec, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [*spec.nodes[name].inputs, *_writers(spec, name)]
    return found


def _writers(spec: GraphSpec, name: str) -> Iterator[str]:
    """Who writes columns and marks of its table that the rows of a node wait for."""
    table, wanted = _waited_for(spec, name)
    for other in spec.nodes if wanted else ():
        written = (
            {column.name for column in writes(spec, other)} if table in written_tables(spec, other) else set()
        )
        if table in leased_tables(spec, other):
            written |= {column.name for column in marks(spec, other)}
        if written & wanted:
            yield other


def _waited_for(spec: GraphSpec, name: str) -> tuple[str | None, set[str]]:
    node = spec.nodes[name]
    if isinstance(node.options, SourceOptions) and node.options.hears:
        return name, set(READS)
    if kind_of(node.kind).task is None:
        return None, set()
    return leased_table(spec, name), set(leased_columns(spec, name))


def _only_keeps(spec: GraphSpec, name: str) -> bool:
    """Whether what a node does stands outside of the tables."""
    node = spec.nodes[name]
    return node.kind == "sink" or (is_path(node.kind) and not kind_of(node.kind).writes(node.options))
