"""Whether what a source's sampler and budget go by is there: domains, profiles, rewards, samples to share."""

from collections.abc import Iterator

import numpy as np

from headrace.algorithms.budgets.options import PythonBudgetOptions, StagedOptions
from headrace.algorithms.curricula.options import (
    Column,
    ProfiledOptions,
    UniformOptions,
)
from headrace.algorithms.curricula.registry import build_sampler
from headrace.algorithms.prompt_data import PromptData
from headrace.dataflow.checks.data import seen
from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.roles import writes
from headrace.dataflow.planning.topology import tables, trainer_on
from headrace.services.options import CopyData, Dataset, SourceOptions, Written
from headrace.services.source.hearing import READS

_WAYS_OUT = {
    "domains": "give the data some: several `letters` of copy, several tasks of reasoning_gym, a `domain` in "
    "each entry of a file; or set sampler: uniform",
    "pass_rates": "write a `pass_rate` in each entry of a file, from a few samples of each prompt under "
    "the initial policy; or choose another",
}


def check_curricula(spec: GraphSpec) -> Iterator[Problem]:
    for table, shape in tables(spec).items():
        source = spec.nodes[table].options
        if isinstance(source, SourceOptions):
            path = ("nodes", table)
            yield from _told(source, path)
            yield from _settings(source, _steps(spec, table), path)
            yield from _shared_out(source, path)
            yield from _idle_knobs(source, path)
            written = {column.name for name in shape.writers for column in writes(spec, name)}
            yield from _heard(source, path, written)


def _told(source: SourceOptions, path: Path) -> Iterator[Problem]:
    for key, chosen in (("sampler", source.sampler), ("budget", source.budget)):
        for column in chosen.needs:
            if not _tells(source.dataset, column):
                what = column.replace("_", " ")
                yield Problem(
                    path=(*path, key),
                    wrong=f"{chosen.kind} goes by {what}, which the data set does not tell",
                    way_out=_WAYS_OUT[column],
                )


def _tells(dataset: Dataset, column: Column) -> bool:
    """Whether a data set says it of its prompts; one that cannot be looked into yet may."""
    if not isinstance(dataset, Written):
        return column == "domains" and (_domains(dataset) or 0) > 1
    found = seen(dataset)
    keys = () if found is None else found.keys
    return keys is None or (dataset.domain_key if column == "domains" else dataset.pass_rate_key) in keys


def _domains(dataset: Dataset) -> int | None:
    """Number of domains; None: it stands in the file."""
    if isinstance(dataset, Written):
        return None
    return len(dataset.lengths if isinstance(dataset, CopyData) else dataset.tasks)


def _steps(spec: GraphSpec, table: str) -> int:
    """Training steps that a source draws for."""
    trainer = trainer_on(spec, table)
    return spec.steps if trainer is None else spec.steps_of(trainer)


def _settings(source: SourceOptions, steps: int, path: Path) -> Iterator[Problem]:
    """Proportions and floors that do not fit the number of domains: the sampler itself says so."""
    number = _domains(source.dataset)
    if "domains" not in source.sampler.needs or number is None or number < 2:
        return
    try:
        build_sampler(source.sampler, PromptData(size=number, domains=np.arange(number), steps=steps))
    except ValueError as error:
        wrong, _, way_out = str(error).partition("; ")
        yield Problem(path=(*path, "sampler"), wrong=wrong, way_out=way_out or "make them fit")


def _shared_out(source: SourceOptions, path: Path) -> Iterator[Problem]:
    low, high = source.budget.group_sizes(source.samples_per_prompt)
    if source.budget.spends_budget and not low <= source.samples_per_prompt <= high:
        yield Problem(
            path=(*path, "budget"),
            wrong=f"{source.samples_per_prompt} samples per prompt on average cannot be shared out in groups "
            f"of {low} to {high}",
            way_out=f"set samples_per_prompt between {low} and {high}, or change the budget's low or high",
        )


def _heard(source: SourceOptions, path: Path, written: set[str]) -> Iterator[Problem]:
    if source.hears and not set(READS) <= written:
        chosen = source.sampler if source.sampler.hears else source.budget
        yield Problem(
            path=(*path, "sampler" if source.sampler.hears else "budget"),
            wrong=f"{chosen.kind} goes by rewards, and no node writes any",
            way_out="add a reward node, or choose one that goes by the data alone",
        )


def _idle_knobs(source: SourceOptions, path: Path) -> Iterator[Problem]:
    defaults = keys(SourceOptions)
    if not isinstance(source.sampler, UniformOptions):
        cure = ", or set the sampler's own epochs" if isinstance(source.sampler, ProfiledOptions) else ""
        for key in ("epochs", "shuffle"):
            if getattr(source, key) != defaults[key].default:
                why = f"the sampler {source.sampler.kind} keeps an order of its own"
                yield _idle((*path, key), why, f"remove it{cure if key == 'epochs' else ''}")
    budget, usual = source.budget, defaults["samples_per_prompt"].default
    sized = not budget.spends_budget and not isinstance(budget, PythonBudgetOptions)
    if sized and source.samples_per_prompt != usual:
        setting = "its stages" if isinstance(budget, StagedOptions) else "low and high"
        why = f"the budget {budget.kind} sets each group's size by {setting}"
        yield _idle((*path, "samples_per_prompt"), why, "remove it")


def _idle(path: Path, why: str, way_out: str) -> Problem:
    return Problem(path=path, wrong=f"no effect: {why}", way_out=way_out, severity="warning")
