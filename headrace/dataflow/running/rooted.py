"""Paths of a graph made absolute, so that they hold in other processes and for a resume from anywhere."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from headrace.algorithms.budgets.options import PythonBudgetOptions
from headrace.algorithms.curricula.options import PythonSamplerOptions
from headrace.algorithms.filters import ChainOptions, PythonFilterOptions
from headrace.algorithms.options import PythonOptions
from headrace.algorithms.options.credit import PythonCredit
from headrace.algorithms.options.policy_gradient import PolicyGradient
from headrace.algorithms.updates import PythonUpdate
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.services.models import RECIPES
from headrace.services.options import (
    JsonlData,
    PolicyOptions,
    PythonVerifier,
    RewardOptions,
    SourceOptions,
    TrainerOptions,
)


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
    dataset, sampler, budget = options.dataset, options.sampler, options.budget
    if isinstance(dataset, JsonlData):
        dataset = replace(dataset, path=str(folder / dataset.path))
    if isinstance(sampler, PythonSamplerOptions):
        sampler = replace(sampler, path=_code(sampler.path, folder))
    if isinstance(budget, PythonBudgetOptions):
        budget = replace(budget, path=_code(budget.path, folder))
    return replace(options, dataset=dataset, sampler=sampler, budget=budget)


def _code(path: str, folder: Path) -> str:
    """`file.py:name` from `folder`; a module's name stays as it is."""
    place, _, name = path.rpartition(":")
    return f"{folder / place}:{name}" if place.endswith(".py") else path


def _trainer(options: TrainerOptions, folder: Path) -> TrainerOptions:
    algorithm, chosen = options.algorithm, options.filter
    if isinstance(algorithm, PythonOptions):
        algorithm = replace(algorithm, path=_code(algorithm.path, folder))
    elif isinstance(algorithm, PolicyGradient) and isinstance(algorithm.advantage, PythonCredit):
        credit = replace(algorithm.advantage, path=_code(algorithm.advantage.path, folder))
        algorithm = replace(algorithm, advantage=credit)
    if isinstance(chosen, ChainOptions):
        chosen = replace(chosen, filters=tuple(_filter(each, folder) for each in chosen.filters))
    elif chosen is not None:
        chosen = _filter(chosen, folder)
    update = options.update
    if isinstance(update, PythonUpdate):
        update = replace(update, path=_code(update.path, folder))
    return replace(options, algorithm=algorithm, filter=chosen, update=update)


Filter = TypeVar("Filter")


def _filter(options: Filter, folder: Path) -> Filter:
    if isinstance(options, PythonFilterOptions):
        return replace(options, path=_code(options.path, folder))
    return options
