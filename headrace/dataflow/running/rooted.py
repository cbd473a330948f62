"""Paths of a graph made absolute, so that they hold in other processes and for a resume from anywhere."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from headrace.algorithms.filters import ChainOptions
from headrace.algorithms.options.policy_gradient import PolicyGradient
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.services.models import RECIPES
from headrace.services.options import (
    OWN_CLASSES,
    JsonlData,
    PolicyOptions,
    PythonVerifier,
    RewardOptions,
    SourceOptions,
    TrainerOptions,
)

Options = TypeVar("Options")


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
    if isinstance(options, SourceOptions):
        return replace(node, options=_source(options, folder))
    if isinstance(options, RewardOptions) and isinstance(options.verifier, PythonVerifier):
        verifier = replace(options.verifier, function=_code(options.verifier.function, folder))
        return replace(node, options=replace(options, verifier=verifier))
    if isinstance(options, TrainerOptions):
        return replace(node, options=_trainer(options, folder))
    return node


def _source(options: SourceOptions, folder: Path) -> SourceOptions:
    dataset = options.dataset
    if isinstance(dataset, JsonlData):
        dataset = replace(dataset, path=str(folder / dataset.path))
    sampler, budget = _own(options.sampler, folder), _own(options.budget, folder)
    return replace(options, dataset=dataset, sampler=sampler, budget=budget)


def _code(path: str, folder: Path) -> str:
    """`file.py:name` from `folder`; a module's name stays as it is."""
    place, _, name = path.rpartition(":")
    return f"{folder / place}:{name}" if place.endswith(".py") else path


def _trainer(options: TrainerOptions, folder: Path) -> TrainerOptions:
    algorithm, chosen = _own(options.algorithm, folder), _own(options.filter, folder)
    if isinstance(algorithm, PolicyGradient):
        algorithm = replace(algorithm, advantage=_own(algorithm.advantage, folder))
    if isinstance(chosen, ChainOptions):
        chosen = replace(chosen, filters=tuple(_own(each, folder) for each in chosen.filters))
    return replace(options, algorithm=algorithm, filter=chosen, update=_own(options.update, folder))


def _own(options: Options, folder: Path) -> Options:
    """Options that name a class of the user's, with its file from `folder`; any other as they are."""
    if isinstance(options, OWN_CLASSES):
        return replace(options, path=_code(options.path, folder))
    return options
