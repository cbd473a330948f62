"""Whether a node type of a user's own says what it reads and writes."""

from collections.abc import Iterator

from headrace.dataflow.language.problems import Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.services.kinds import KINDS, kind_of


def check_declared(spec: GraphSpec) -> Iterator[Problem]:
    """Declarations that are none, or that fail on the node's options; other checks rely on them."""
    for name, node in spec.nodes.items():
        if node.kind in KINDS:
            continue
        kind = kind_of(node.kind)
        for declared in (kind.reads, kind.writes):
            try:
                declared(node.options)
            except Exception as error:
                wrong, _, way_out = str(error).partition("; ")
                known = isinstance(error, ValueError)
                yield Problem(
                    path=("nodes", name, "kind"),
                    wrong=wrong if known else f"{node.kind}: {type(error).__name__}: {wrong}",
                    way_out=way_out or "see headrace.services.own.NodeType",
                )
