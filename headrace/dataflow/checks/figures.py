"""Whether the numbers fit each other: batches, data, and knobs that would have no effect."""

from collections.abc import Iterator
from math import ceil, isfinite
from typing import Any

from headrace.algorithms.budgets.options import FixedOptions
from headrace.algorithms.curricula.options import UniformOptions
from headrace.dataflow.checks.data import size_of
from headrace.dataflow.checks.idle import idle
from headrace.dataflow.checks.training import check_filter_sees_groups
from headrace.dataflow.language.convert import build
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.arithmetic import (
    group_sizes,
    groups_of_a_prompt,
    prompts_per_step,
    table_staleness,
)
from headrace.dataflow.planning.topology import tables
from headrace.services.options import EvalOptions, QueueOptions, RolloutOptions, SourceOptions, TrainerOptions
from headrace.services.rollout.engines.fake import Script


def check_figures(spec: GraphSpec) -> Iterator[Problem]:
    yield from _queue_knobs(spec.queue)
    for table, shape in tables(spec).items():
        start, at = spec.nodes[table].options, ("nodes", table)
        sizes = group_sizes(spec, table)
        for name in shape.readers:
            reader, path = spec.nodes[name].options, ("nodes", name)
            if isinstance(reader, RolloutOptions):
                yield from _group_fits(sizes.largest, at, _sized_by(start), reader, path)
                yield from _rollout_knobs(reader, path, table_staleness(spec, table))
            elif isinstance(reader, TrainerOptions):
                yield from _group_credits(sizes.smallest, at, _sized_by(start), reader)
                yield from check_filter_sees_groups(sizes.largest, at, reader)
                yield from _staleness_reached(spec, name)
                if isinstance(start, SourceOptions):
                    yield from _data_lasts(spec.steps_of(name), start, at, reader)
                else:
                    yield from _rows_last(spec, table, spec.steps_of(name), name)


def _sized_by(start: Any) -> str:
    """The key that sets how large groups are."""
    fixed = not isinstance(start, SourceOptions) or isinstance(start.budget, FixedOptions)
    return "samples_per_prompt" if fixed else "budget"


def _staleness_reached(spec: GraphSpec, trainer: str) -> Iterator[Problem]:
    policy = str(spec.nodes[trainer].policy)
    staleness, steps = spec.staleness_of(policy), spec.steps_of(trainer)
    if isfinite(staleness) and staleness > max(steps - 1, 0):
        own = spec.policies[policy].staleness is not None
        yield Problem(
            path=("policies", policy, "staleness") if own else ("staleness",),
            wrong=f"got {staleness:g}, which {steps} steps never reach: a sample is at most "
            f"{steps - 1} versions old",
            way_out=f"set it to {steps - 1} or less, or raise steps",
            severity="warning",
        )


def _queue_knobs(queue: QueueOptions) -> Iterator[Problem]:
    if queue.durable:
        return
    why = "the queue is in memory, which goes with the launch"
    if queue.archive:
        yield Problem(
            path=("queue", "archive"),
            wrong=f"it cannot be kept: {why}",
            way_out="set queue.durability: disk, or remove archive",
        )
    if queue.fsync != "batch":
        yield idle(("queue", "fsync"), why, "set queue.durability: disk, or remove fsync")


def _group_fits(largest: int, at: Path, key: str, rollout: RolloutOptions, reader: Path) -> Iterator[Problem]:
    if largest > rollout.max_concurrent:
        yield Problem(
            path=(*reader, "max_concurrent"),
            wrong=f"a group of {largest} does not fit into {rollout.max_concurrent}",
            allowed=f"at least {largest}",
            way_out=f"raise max_concurrent, or lower {'.'.join(at)}.{key}",
        )


def _group_credits(smallest: int, at: Path, key: str, trainer: TrainerOptions) -> Iterator[Problem]:
    if smallest < 2 and trainer.algorithm.compares_group:
        yield Problem(
            path=(*at, key),
            wrong=f"got {smallest}: {trainer.algorithm.kind} compares the answers of one "
            "prompt, so every advantage would be 0",
            allowed="at least 2",
            way_out="ask for more answers, 8 for example",
        )


def _data_lasts(steps: int, source: SourceOptions, at: Path, trainer: TrainerOptions) -> Iterator[Problem]:
    needed, given = steps * trainer.prompts_per_step, _prompts_given(source)
    if given is not None and source.epochs is not None and needed > given:
        size = given // source.epochs
        epochs = (
            f"1 epoch of {size} gives" if source.epochs == 1 else f"{source.epochs} epochs of {size} give"
        )
        yield Problem(
            path=(*at, "epochs"),
            wrong=f"{steps} steps need {needed} prompts, {epochs} {given}",
            way_out=f"set epochs: {ceil(needed / size)}, leave it out, or set steps: "
            f"{given // trainer.prompts_per_step}",
        )


def check_script(options: RolloutOptions | EvalOptions, path: Path) -> Iterator[Problem]:
    """Whether a fake engine's script can be played, and is."""
    if options.fake and options.engine != "fake":
        yield Problem(
            path=(*path, "fake"),
            wrong=f"no effect: the engine is '{options.engine}'",
            way_out="remove it, or set engine: fake",
        )
    elif options.engine == "fake":
        script: list[Problem] = []
        build(Script, options.fake, (*path, "fake"), script, noun="a fake script")
        yield from script


def _rows_last(spec: GraphSpec, table: str, steps: int, trainer: str) -> Iterator[Problem]:
    """Whether a source far above makes as many prompts of a branch as its trainer asks for."""
    given, needed = _prompts_in_all(spec, table), steps * prompts_per_step(spec, table)
    if given is not None and needed > given:
        yield Problem(
            path=("nodes", trainer, "prompts_per_step"),
            wrong=f"{steps} steps need {needed} prompts of '{table}', and the data make {given} at most",
            way_out="raise the epochs of the source above it, or leave them out, or ask for fewer steps",
        )


def _prompts_given(source: SourceOptions) -> int | None:
    """Prompts that a source gives in all its epochs; None: they have no end, or it cannot be told."""
    size = size_of(source.dataset)
    if source.epochs is None or size is None or not isinstance(source.sampler, UniformOptions):
        return None
    return size * source.epochs


def _prompts_in_all(spec: GraphSpec, table: str) -> int | None:
    """The most prompts that a table ever has; None: no end is set to them, or it cannot be told."""
    options = spec.nodes[table].options
    if isinstance(options, SourceOptions):
        return _prompts_given(options)
    parent = str(tables(spec)[table].parent)
    above = _prompts_in_all(spec, parent)
    return None if above is None else above * groups_of_a_prompt(spec, parent, table)


def _rollout_knobs(rollout: RolloutOptions, path: Path, staleness: float) -> Iterator[Problem]:
    yield from check_script(rollout, path)
    place = (*path, "over_new_weights")
    if rollout.over_new_weights != "swap" and staleness == 0:
        yield idle(
            place,
            "at staleness 0 nothing is in flight when weights arrive",
            "remove it, or raise staleness",
        )
    if rollout.over_new_weights == "abort_restart" and not isfinite(staleness):
        yield Problem(
            path=place,
            wrong="without a bound on staleness, weights wait for no answer: a long one may never end",
            way_out="set abort_keep, or a finite staleness",
        )
