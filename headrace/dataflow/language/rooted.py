"""Files that a graph names: looked for beside the graph's own, and made absolute for other processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.algorithms.by_path import Place
from headrace.dataflow.language.fields import with_places
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.services.kinds import is_path
from headrace.services.models import RECIPES
from headrace.services.options import PolicyOptions

Move = Callable[[Place, str], str]


def rooted(spec: GraphSpec, folder: Path) -> GraphSpec:
    """`spec` with the files and model folders that it names taken from `folder`."""

    def from_folder(place: Place, value: str) -> str:
        """The name of a module or of a data set stays as it is."""
        file = place.file(value)
        named = place.what == "dataset" and not place.is_there(folder / value)
        return value if file is None or named else f"{folder / file}{value.removeprefix(file)}"

    policies = {name: _policy(policy, folder) for name, policy in spec.policies.items()}
    return replace(_moved(spec, from_folder), policies=policies)


def found(spec: GraphSpec, folders: Sequence[Path]) -> GraphSpec:
    """`spec` with files that are not in the working directory taken from the first folder that has them."""
    return _moved(spec, lambda place, value: _found(place, value, folders))


def found_kinds(tree: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """As `found`, of the kinds of node in a plain graph: they have to be imported before it is typed."""
    nodes = tree.get("nodes")
    if not isinstance(nodes, Mapping):
        return dict(tree)
    return {**tree, "nodes": {name: _with_kind(node, folders) for name, node in nodes.items()}}


def _with_kind(node: Any, folders: Sequence[Path]) -> Any:
    kind = node.get("kind") if isinstance(node, Mapping) else None
    if not isinstance(kind, str) or not is_path(kind):
        return node
    return {**node, "kind": _found(Place("class"), kind, folders)}


def _found(place: Place, value: str, folders: Sequence[Path]) -> str:
    file = place.file(value)
    if file is None or Path(file).is_absolute() or place.is_there(Path(file)):
        return value
    there = next((folder / file for folder in folders if place.is_there(folder / file)), None)
    return value if there is None else f"{there}{value.removeprefix(file)}"


def _moved(spec: GraphSpec, move: Move) -> GraphSpec:
    return replace(spec, nodes={name: _node(node, move) for name, node in spec.nodes.items()})


def _policy(policy: PolicyOptions, folder: Path) -> PolicyOptions:
    """A recipe's name and a hub id stay as they are."""
    if policy.model in RECIPES or not (folder / policy.model).is_dir():
        return policy
    return replace(policy, model=str(folder / policy.model))


def _node(node: NodeSpec, move: Move) -> NodeSpec:
    kind = move(Place("class"), node.kind) if is_path(node.kind) else node.kind
    return replace(node, kind=kind, options=with_places(node.options, move))
