"""How each policy learns: its table and steps, how far generation runs ahead, what a step takes."""

from dataclasses import dataclass

from headrace.algorithms.updates import MiniBatches, UpdateOptions
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.arithmetic import StepPlan, groups_of_a_step, step_plan
from headrace.dataflow.planning.lengths import prompt_tokens
from headrace.dataflow.planning.modes import mode
from headrace.dataflow.planning.topology import leased_table, tables, trainer_of
from headrace.services.options import TrainerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatches:
    """Passes through the model that a training step takes. They divide its work and change no update."""

    least: int
    """Where all groups are there at once and answers are short."""
    full: int
    """Where all are there at once and every answer is as long as it may be."""
    most: int
    """Where each group comes by itself and every answer is as long as it may be."""
    max_tokens: int
    """Of a pass; a longer sample has one of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPlan:
    """A policy that is trained."""

    table: str
    trainer: str
    steps: int
    staleness: float
    mode: str
    """What the staleness makes of it, in words."""
    freeze: tuple[tuple[int, int], ...]
    """Steps, from the first to before the second, in which the weights stay."""
    barriers: tuple[tuple[str, ...], ...]
    """Groups of policies, this among them, that begin each step together."""
    micro_batches: MicroBatches


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPlan:
    """A table whose rows come of another's."""

    parent: str
    groups_per_step: int
    """The most that one step of the parent makes."""


def policies(spec: GraphSpec) -> dict[str, PolicyPlan]:
    """By name, in the order of the graph's policies."""
    trainers = {policy: trainer_of(spec, policy) for policy in spec.policies}
    return {policy: _policy(spec, name) for policy, name in trainers.items() if name is not None}


def branches(spec: GraphSpec) -> dict[str, BranchPlan]:
    """By table."""
    return {
        table: BranchPlan(parent=shape.parent, groups_per_step=groups_of_a_step(spec, shape.parent, table))
        for table, shape in tables(spec).items()
        if shape.parent is not None
    }


def _policy(spec: GraphSpec, trainer: str) -> PolicyPlan:
    node, table = spec.nodes[trainer], str(leased_table(spec, trainer))
    policy, options = str(node.policy), node.options
    assert isinstance(options, TrainerOptions)
    staleness = spec.staleness_of(policy)
    return PolicyPlan(
        table=table,
        trainer=trainer,
        steps=spec.steps_of(trainer),
        staleness=staleness,
        mode=mode(staleness),
        freeze=spec.policies[policy].freeze,
        barriers=tuple(group for group in spec.barrier if policy in group),
        micro_batches=micro_batches(
            step_plan(spec, table), prompt_tokens(spec, table), options.micro_batch_tokens, options.update
        ),
    )


def micro_batches(batch: StepPlan, prompt: int, max_tokens: int, update: UpdateOptions) -> MicroBatches:
    """A group's prompt counts once in a pass, and of an answer all but its last token go through.

    `prompt`: tokens that prompts are reckoned to have. Mini-batches are gone through one by one.
    """
    answer = batch.max_new_tokens - 1
    samples = max(1, (max_tokens - prompt) // answer if answer else batch.largest_group)
    parts = -(-batch.largest_group // samples)
    whole = prompt + min(samples, batch.largest_group) * answer
    in_one = max(1, max_tokens // whole)
    full = -(-batch.prompts_per_step // in_one) if parts == 1 else batch.prompts_per_step * parts
    short = -(-batch.prompts_per_step * prompt // max_tokens)
    number, epochs = (update.number, update.epochs) if isinstance(update, MiniBatches) else (1, 1)
    return MicroBatches(
        least=max(short, number) * epochs,
        full=max(full, number) * epochs,
        most=batch.prompts_per_step * parts * epochs,
        max_tokens=max_tokens,
    )
