"""Whether what a graph names outside itself is there: data, verifiers, models."""

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from headrace.dataflow.language.problems import Path, Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import leased_table
from headrace.services.models import exists, fault, value
from headrace.services.options import (
    CopyData,
    Dataset,
    EvalOptions,
    FileData,
    HuggingFaceData,
    JsonlData,
    MathVerifyVerifier,
    ReasoningGymData,
    ReasoningGymVerifier,
    RewardOptions,
    SourceOptions,
    TrainerOptions,
)
from headrace.services.source.datasets.base import DatasetError
from headrace.services.source.datasets.glance import Glance, glance

GYM_MISSING = "pip install reasoning-gym, or name another one"
MATH_MISSING = "pip install 'headrace[math-verify]', or name another one"


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
            yield from _right_answers(options.verifier, _data_of(spec, name), ("nodes", name, "verifier"))


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
    """Prompts in one epoch; None where it cannot be told."""
    found = seen(dataset)
    return None if found is None else found.size


def seen(dataset: Dataset) -> Glance | None:
    """None where the data set cannot be had, which `check_outside` says."""
    try:
        return glance(dataset)
    except (DatasetError, OSError):
        return None


def _data(dataset: Dataset, path: Path) -> Iterator[Problem]:
    if isinstance(dataset, ReasoningGymData):
        yield from _gym(dataset, path)
    elif isinstance(dataset, CopyData):
        yield from _copy(dataset, path)
    elif isinstance(dataset, HuggingFaceData) or FilePath(dataset.path).is_file():
        yield from _written(dataset, path)


def _copy(dataset: CopyData, path: Path) -> Iterator[Problem]:
    if not dataset.alphabet:
        yield Problem(path=(*path, "alphabet"), wrong="no letters", way_out="give some, e.g. abcdefghij")
    elif not dataset.lengths:
        yield Problem(path=(*path, "letters"), wrong="no length", way_out="give some, e.g. [2, 3, 4]")


def _written(dataset: FileData, path: Path) -> Iterator[Problem]:
    try:
        found = glance(dataset)
    except DatasetError as error:
        wrong, _, way_out = str(error).partition("; ")
        yield Problem(path=path, wrong=wrong, way_out=way_out or "name another one")
        return
    rows = "lines" if isinstance(dataset, JsonlData) else "rows"
    if found.size == 0:
        yield Problem(
            path=(*path, "path"),
            wrong=f"'{dataset.path}' has no {rows}",
            way_out=f"put a prompt on each {rows.removesuffix('s')}",
        )
    elif found.keys is not None and dataset.prompt_key not in found.keys:
        yield Problem(
            path=(*path, "prompt_key"),
            wrong=f"the first line of '{dataset.path}' has no key '{dataset.prompt_key}'",
            allowed=listing(found.keys),
            way_out=suggestion(dataset.prompt_key, found.keys, otherwise="name the key of the prompt"),
        )


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
    if isinstance(verifier, MathVerifyVerifier) and importlib.util.find_spec("math_verify") is None:
        yield Problem(path=path, wrong="the package math-verify is not installed", way_out=MATH_MISSING)


def _data_of(spec: GraphSpec, name: str) -> Dataset | None:
    """What the answers that a node scores are to; None where a branch made the prompts."""
    options = spec.nodes[name].options
    if isinstance(options, EvalOptions):
        return options.dataset
    table = leased_table(spec, name)
    source = None if table is None else spec.nodes[table].options
    return source.dataset if isinstance(source, SourceOptions) else None


def _right_answers(verifier: object, dataset: Dataset | None, path: Path) -> Iterator[Problem]:
    """Whether the entries have what a verifier compares answers with."""
    if not isinstance(verifier, MathVerifyVerifier) or dataset is None:
        return
    keys = _told_to_verifiers(dataset)
    if keys is not None and verifier.answer_key not in keys:
        yield Problem(
            path=(*path, "answer_key"),
            wrong=f"the entries of the data set have no '{verifier.answer_key}'",
            allowed=listing(keys),
            way_out=suggestion(verifier.answer_key, keys, otherwise="name the key of the right answer"),
        )


def _told_to_verifiers(dataset: Dataset) -> list[str] | None:
    """Keys of an entry without its prompt; None where they cannot be told."""
    if isinstance(dataset, ReasoningGymData):
        return ["task", "config", "entry"]
    if isinstance(dataset, CopyData):
        return ["answer"]
    found = seen(dataset)
    if found is None or found.keys is None:
        return None
    some = () if isinstance(dataset, JsonlData) else dataset.columns
    return [key for key in some or found.keys if key != dataset.prompt_key]
