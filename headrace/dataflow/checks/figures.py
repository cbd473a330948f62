"""Whether the numbers fit each other: batches, data, and knobs that would have no effect."""

from collections.abc import Iterator
from math import ceil

from headrace.algorithms.budgets.options import FixedOptions
from headrace.algorithms.curricula.options import UniformOptions
from headrace.dataflow.checks.data import size_of
from headrace.dataflow.checks.idle import idle
from headrace.dataflow.checks.training import check_filter_sees_groups
from headrace.dataflow.language.convert import build
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import tables
from headrace.services.options import QueueOptions, RolloutOptions, SourceOptions, TrainerOptions
from headrace.services.rollout.engines.fake import Script


def check_figures(spec: GraphSpec) -> Iterator[Problem]:
    yield from _queue_knobs(spec.queue)
    for members in tables(spec).values():
        options = {name: spec.nodes[name].options for name in members}
        for name, source in options.items():
            if not isinstance(source, SourceOptions):
                continue
            for other, reader in options.items():
                if isinstance(reader, RolloutOptions):
                    yield from _group_fits(source, ("nodes", name), reader, ("nodes", other))
                elif isinstance(reader, TrainerOptions):
                    yield from _group_credits(source, ("nodes", name), reader)
                    yield from check_filter_sees_groups(source, ("nodes", name), reader)
                    yield from _data_lasts(spec, source, ("nodes", name), reader)
    for name, node in spec.nodes.items():
        path = ("nodes", name)
        if isinstance(node.options, RolloutOptions):
            yield from _rollout_knobs(spec, node.options, path)


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


def _group_fits(source: SourceOptions, at: Path, rollout: RolloutOptions, reader: Path) -> Iterator[Problem]:
    largest = source.budget.group_sizes(source.samples_per_prompt)[1]
    if largest > rollout.max_concurrent:
        key = "samples_per_prompt" if isinstance(source.budget, FixedOptions) else "budget"
        yield Problem(
            path=(*reader, "max_concurrent"),
            wrong=f"a group of {largest} does not fit into {rollout.max_concurrent}",
            allowed=f"at least {largest}",
            way_out=f"raise max_concurrent, or lower {'.'.join(at)}.{key}",
        )


def _group_credits(source: SourceOptions, at: Path, trainer: TrainerOptions) -> Iterator[Problem]:
    smallest = source.budget.group_sizes(source.samples_per_prompt)[0]
    if smallest < 2 and trainer.algorithm.compares_group:
        yield Problem(
            path=(*at, "samples_per_prompt" if isinstance(source.budget, FixedOptions) else "budget"),
            wrong=f"got {smallest}: {trainer.algorithm.kind} compares the answers of one "
            "prompt, so every advantage would be 0",
            allowed="at least 2",
            way_out="ask for more answers, 8 for example",
        )


def _data_lasts(
    spec: GraphSpec, source: SourceOptions, at: Path, trainer: TrainerOptions
) -> Iterator[Problem]:
    size = size_of(source.dataset)
    if source.epochs is None or size is None or not isinstance(source.sampler, UniformOptions):
        return
    needed, given = spec.steps * trainer.prompts_per_step, size * source.epochs
    if needed > given:
        epochs = (
            f"1 epoch of {size} gives" if source.epochs == 1 else f"{source.epochs} epochs of {size} give"
        )
        yield Problem(
            path=(*at, "epochs"),
            wrong=f"{spec.steps} steps need {needed} prompts, {epochs} {given}",
            way_out=f"set epochs: {ceil(needed / size)}, leave it out, or set steps: "
            f"{given // trainer.prompts_per_step}",
        )


def _rollout_knobs(spec: GraphSpec, rollout: RolloutOptions, path: Path) -> Iterator[Problem]:
    if rollout.fake and rollout.engine != "fake":
        yield Problem(
            path=(*path, "fake"),
            wrong=f"no effect: the engine is '{rollout.engine}'",
            way_out="remove it, or set engine: fake",
        )
    elif rollout.engine == "fake":
        script: list[Problem] = []
        build(Script, rollout.fake, (*path, "fake"), script, noun="a fake script")
        yield from script
    if rollout.over_new_weights == "finish" and spec.staleness == 0:
        yield idle(
            (*path, "over_new_weights"),
            "at staleness 0 nothing is in flight when weights arrive",
            "remove it, or raise staleness",
        )
