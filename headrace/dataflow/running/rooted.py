"""Paths of a graph made absolute, so that they hold in other processes and for a resume from anywhere."""

from dataclasses import replace
from pathlib import Path

from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.services.models import RECIPES
from headrace.services.options import JsonlData, PolicyOptions, PythonVerifier, RewardOptions, SourceOptions


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
    options = node.options
    if isinstance(options, SourceOptions) and isinstance(options.dataset, JsonlData):
        dataset = replace(options.dataset, path=str(folder / options.dataset.path))
        return replace(node, options=replace(options, dataset=dataset))
    if isinstance(options, RewardOptions) and isinstance(options.verifier, PythonVerifier):
        place, _, name = options.verifier.function.rpartition(":")
        if place.endswith(".py"):
            verifier = replace(options.verifier, function=f"{folder / place}:{name}")
            return replace(node, options=replace(options, verifier=verifier))
    return node
