"""Whether what a graph names outside itself is there: data, verifiers, models."""

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from headrace.dataflow.language.problems import Path, Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec
from headrace.services.models import exists, fault, value
from headrace.services.options import (
    Dataset,
    EvalOptions,
    JsonlData,
    ReasoningGymData,
    ReasoningGymVerifier,
    RewardOptions,
    SourceOptions,
    TrainerOptions,
)

GYM_MISSING = "pip install reasoning-gym, or name another one"


def check_outside(spec: GraphSpec) -> Iterator[Problem]:
    """Models, data sets and verifiers that cannot be had."""
    for name, policy in spec.policies.items():
        if reason := exists(policy.model) or _misused(spec, name):
            wrong, _, way_out = reason.partition("; ")
            yield Problem(
                path=("policies", name, "model"), wrong=wrong, way_out=way_out or "name another one"
            )
    for name, node in spec.nodes.items():
        options = node.options
        if isinstance(options, SourceOptions | EvalOptions):
            yield from _data(options.dataset, ("nodes", name, "dataset"))
        if isinstance(options, RewardOptions | EvalOptions):
            yield from _verifier(options.verifier, ("nodes", name, "verifier"))


def _misused(spec: GraphSpec, policy: str) -> str | None:
    """Why a model is not what its nodes need: a language model, or one of values."""
    users = [node for node in spec.nodes.values() if node.policy == policy]
    valued = [
        node.kind == "critic"
        or (isinstance(node.options, TrainerOptions) and node.options.algorithm.trains_values)
        for node in users
    ]
    model = spec.policies[policy].model
    return (value.fault(model) if any(valued) else None) or (None if all(valued) else fault(model))


def size_of(dataset: Dataset) -> int | None:
    """Prompts in one epoch; None when the file cannot be read."""
    if isinstance(dataset, JsonlData):
        try:
            with FilePath(dataset.path).open("rb") as lines:
                return sum(1 for line in lines if line.strip())
        except OSError:
            return None
    return dataset.size


def _data(dataset: Dataset, path: Path) -> Iterator[Problem]:
    if isinstance(dataset, ReasoningGymData):
        yield from _gym(dataset, path)
    elif isinstance(dataset, JsonlData):
        if FilePath(dataset.path).is_file() and size_of(dataset) == 0:
            yield Problem(
                path=(*path, "path"),
                wrong=f"'{dataset.path}' has no lines",
                way_out="put a prompt on each line",
            )
    elif not dataset.alphabet:
        yield Problem(path=(*path, "alphabet"), wrong="no letters", way_out="give some, e.g. abcdefghij")
    elif not dataset.lengths:
        yield Problem(path=(*path, "letters"), wrong="no length", way_out="give some, e.g. [2, 3, 4]")


def _gym(dataset: ReasoningGymData, path: Path) -> Iterator[Problem]:
    if importlib.util.find_spec("reasoning_gym") is None:
        yield Problem(path=path, wrong="the package reasoning-gym is not installed", way_out=GYM_MISSING)
        return
    if not dataset.tasks:
        yield Problem(path=(*path, "task"), wrong="no task", way_out="name at least one")
    for task in dataset.tasks:
        yield from _task(task, dataset, path)
    if isinstance(dataset.task, tuple):
        for name in [name for name in dataset.config if name not in dataset.task]:
            yield Problem(
                path=(*path, "config", name),
                wrong=f"'{name}' is none of the tasks",
                allowed=listing(dataset.task),
                way_out="write the keys of each task under its name, or remove it",
            )


def _task(task: str, dataset: ReasoningGymData, path: Path) -> Iterator[Problem]:
    sets: dict[str, Any] = importlib.import_module("reasoning_gym.factory").DATASETS
    if task not in sets:
        yield Problem(
            path=(*path, "task"),
            wrong=f"reasoning-gym has no task '{task}'",
            way_out=suggestion(task, sets, otherwise=f"name one of its {len(sets)} tasks"),
        )
        return
    config, place = (
        dataset.config_of(task),
        ("config", task) if isinstance(dataset.task, tuple) else ("config",),
    )
    if not isinstance(config, dict):
        yield Problem(path=(*path, *place), wrong=f"got {config!r}", way_out=f"write {task}: {{key: value}}")
        return
    known = [name for name in sets[task][1].__dataclass_fields__ if name not in ("seed", "size")]
    for key in config:
        if key not in known:
            yield Problem(
                path=(*path, *place, key),
                wrong=f"the task {task} has no key '{key}'",
                allowed=listing(known),
                way_out=suggestion(key, known, otherwise="remove it"),
            )


def _verifier(verifier: object, path: Path) -> Iterator[Problem]:
    if isinstance(verifier, ReasoningGymVerifier) and importlib.util.find_spec("reasoning_gym") is None:
        yield Problem(path=path, wrong="the package reasoning-gym is not installed", way_out=GYM_MISSING)
