"""Whether a trainer's figures fit its algorithm, its batches and its optimizer; knobs without effect."""

from collections.abc import Iterator
from typing import Any

from headrace.algorithms.filters import ChainOptions, ZeroVariance
from headrace.algorithms.options import DapoOptions
from headrace.algorithms.options.policy_gradient import PolicyGradient
from headrace.algorithms.updates import MiniBatches
from headrace.algorithms.updates.annealed import largest
from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.fields import keys
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import policy_of
from headrace.services.options import OptimizerOptions, TrainerOptions
from headrace.services.trainer.store import missing

_OTHER_CREDIT = ("the credit is not gae", "set advantage: gae")
_NO_HEAD = ("no value head is trained", "set advantage: gae and critic: head")
_SCHEDULES = {
    "decay_share": ("wsd",),
    "floor": ("linear", "cosine", "quadratic", "wsd", "inverse_sqrt"),
    "warmup_steps": ("constant", "linear", "cosine", "quadratic", "wsd", "inverse_sqrt"),
    "greedy": ("greedy",),
}
"""Schedules in which a key of the optimizer has an effect."""


def check_training(spec: GraphSpec) -> Iterator[Problem]:
    for name, node in spec.nodes.items():
        if isinstance(trainer := node.options, TrainerOptions):
            path = ("nodes", name)
            policy = policy_of(spec, name)
            optimizer, at = spec.policies[policy].optimizer, ("policies", policy, "optimizer")
            yield from _schedule(optimizer, at, spec.steps_of(name) * trainer.update.updates_per_batch)
            yield from _update(trainer, path)
            yield from _filter(trainer, path)
            yield from _algorithm_knobs(trainer, path)
            yield from _store(trainer.checkpoint_store, path)
    yield from _one_store_each(spec)


def check_filter_sees_groups(largest: int, at: Path, trainer: TrainerOptions) -> Iterator[Problem]:
    """Whether a filter of equal rewards has more than one of a prompt to compare."""
    if largest < 2 and any(isinstance(each, ZeroVariance) for each in _filters(trainer)):
        yield Problem(
            path=(*at, "samples_per_prompt"),
            wrong=f"got {largest}: the trainer's filter zero_variance drops every prompt "
            "with a single answer, so no step would ever be full",
            allowed="at least 2",
            way_out="ask for more answers, or remove the filter",
        )


def _store(address: str | None, path: Path) -> Iterator[Problem]:
    if address is not None and (reason := missing(address)) is not None:
        yield Problem(
            path=(*path, "checkpoint_store"),
            wrong=f"{address} cannot be used here: {reason}",
            way_out="install what its scheme needs (s3: pip install s3fs, gs: gcsfs, abfs: adlfs), or name "
            "another",
        )


def _one_store_each(spec: GraphSpec) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for name, node in spec.nodes.items():
        if isinstance(trainer := node.options, TrainerOptions) and trainer.checkpoint_store is not None:
            owner = owners.setdefault(trainer.checkpoint_store.rstrip("/"), name)
            if owner != name:
                yield Problem(
                    path=("nodes", name, "checkpoint_store"),
                    wrong=f"{trainer.checkpoint_store} has the checkpoints of '{owner}' already",
                    way_out="give each trainer an address of its own",
                )


def _schedule(optimizer: OptimizerOptions, path: Path, steps: int) -> Iterator[Problem]:
    if optimizer.warmup_steps >= steps:
        yield Problem(
            path=(*path, "warmup_steps"),
            wrong=f"a warm-up of {optimizer.warmup_steps} steps does not end within {steps} steps",
            allowed=f"below {steps}",
            way_out="shorten it or raise steps",
        )
    greedy = optimizer.greedy
    if optimizer.schedule == "greedy" and not greedy.lowest <= optimizer.lr <= greedy.highest:
        yield Problem(
            path=(*path, "lr"),
            wrong=f"got {optimizer.lr:g}, where the greedy rate begins",
            allowed=f"from greedy.lowest, {greedy.lowest:g}, to greedy.highest, {greedy.highest:g}",
            way_out="move it, or widen the bounds",
        )
    if optimizer.schedule == "greedy" and optimizer.lr == 0:
        yield Problem(
            path=(*path, "lr"), wrong="got 0, which no factor moves", allowed="above 0", way_out="raise it"
        )
    known = keys(OptimizerOptions)
    for key, schedules in _SCHEDULES.items():
        if optimizer.schedule not in schedules and getattr(optimizer, key) != known[key].default:
            needed = " or ".join(schedules)
            yield idle(
                (*path, key),
                f"the schedule is {optimizer.schedule}",
                f"set schedule: {needed}, or remove {key}",
            )


def _update(trainer: TrainerOptions, path: Path) -> Iterator[Problem]:
    update = trainer.update
    if isinstance(update, MiniBatches) and update.number > trainer.prompts_per_step:
        yield Problem(
            path=(*path, "update", "number"),
            wrong=f"{trainer.prompts_per_step} prompts of a step do not fill {update.number} mini-batches",
            allowed=f"at most {trainer.prompts_per_step}",
            way_out="lower it, or raise prompts_per_step",
        )


def _filter(trainer: TrainerOptions, path: Path) -> Iterator[Problem]:
    if trainer.filter is None:
        known = keys(TrainerOptions)
        for key in ("max_attempts", "when_used_up"):
            if getattr(trainer, key) != known[key].default:
                yield idle((*path, key), "there is no filter", f"set a filter, or remove {key}")
    elif isinstance(trainer.filter, ChainOptions) and not trainer.filter.filters:
        yield Problem(
            path=(*path, "filter", "filters"),
            wrong="a chain of no filters",
            way_out="name some, or remove it",
        )


def _algorithm_knobs(trainer: TrainerOptions, path: Path) -> Iterator[Problem]:
    algorithm = trainer.algorithm
    if not isinstance(algorithm, PolicyGradient):
        return
    defaults, by_value = keys(type(algorithm)), algorithm.advantage == "gae"
    divergence, by_head = largest(algorithm.kl_coef) > 0, algorithm.values_by_head
    for key, effective, why, cure in (
        ("kl_estimator", divergence, "kl_coef is 0", "set kl_coef above 0"),
        ("kl_in", divergence, "kl_coef is 0", "set kl_coef above 0"),
        ("gamma", by_value or algorithm.advantage == "reinforce_pp", *_OTHER_CREDIT),
        ("gae_lambda", by_value, *_OTHER_CREDIT),
        ("gae_whiten", by_value, *_OTHER_CREDIT),
        ("critic", by_value, *_OTHER_CREDIT),
        ("value_coef", by_head, *_NO_HEAD),
        ("value_clip", by_head, *_NO_HEAD),
        (
            "sequence_length",
            algorithm.reduction == "sequence_sum" or isinstance(algorithm, DapoOptions),
            "nothing is divided by it",
            "set reduction: sequence_sum",
        ),
    ):
        if not effective and getattr(algorithm, key) != defaults[key].default:
            yield idle((*path, "algorithm", key), why, f"{cure}, or remove {key}")


def _filters(trainer: TrainerOptions) -> tuple[Any, ...]:
    chosen = trainer.filter
    return chosen.filters if isinstance(chosen, ChainOptions) else (chosen,)
