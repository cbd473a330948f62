"""Paths of a graph made absolute, so that they hold in other processes and for a resume from anywhere."""

from dataclasses import replace
from pathlib import Path

from headrace.algorithms.by_path import Place
from headrace.dataflow.language.fields import with_places
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.services.kinds import is_path
from headrace.services.models import RECIPES
from headrace.services.options import PolicyOptions


def rooted(spec: GraphSpec, folder: Path) -> GraphSpec:
    """`spec` with the files and model folders that it names taken from `folder`."""
    return replace(
        spec,
        policies={name: _policy(policy, folder) for name, policy in spec.policies.items()},
        nodes={name: _node(node, folder) for name, node in spec.nodes.items()},
    )


def _policy(policy: PolicyOptions, folder: Path) -> PolicyOptions:
    """A recipe's name and a hub id stay as they are."""
    if policy.model in RECIPES or not (folder / policy.model).is_dir():
        return policy
    return replace(policy, model=str(folder / policy.model))


def _node(node: NodeSpec, folder: Path) -> NodeSpec:
    def from_folder(place: Place, value: str) -> str:
        """A module's name stays as it is."""
        file = place.file(value)
        return value if file is None else f"{folder / file}{value.removeprefix(file)}"

    kind = from_folder(Place("class"), node.kind) if is_path(node.kind) else node.kind
    return replace(node, kind=kind, options=with_places(node.options, from_folder))
