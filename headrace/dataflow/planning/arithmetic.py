"""The arithmetic of tables: how large groups are, how many a step takes and makes of another's."""

import math
from dataclasses import dataclass

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.roles import copies
from headrace.dataflow.planning.topology import answering, leased_table, tables, trainer_on
from headrace.services.options import BranchOptions, SourceOptions
from headrace.services.source.stream import MAX_PROMPTS_PER_PUT

UNBOUNDED_STEPS = 4.0
"""Batches of room for running ahead where `staleness` is inf: table rows are then the only bound.

The rows of a source's `ahead_steps` are in the same table and are begun as well.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Of the groups of a table."""

    usual: int
    """Mean over a step's prompts; where a budget follows from the prompts, the most."""
    smallest: int
    largest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The arithmetic of one training step of a table."""

    samples_per_prompt: int
    """Mean over a step's prompts; where the budget follows from the prompts, the most."""
    smallest_group: int
    largest_group: int
    prompts_per_step: int
    """Of a table that nobody trains on: those that one step of its parent makes."""
    samples_per_step: int
    rows_in_flight: int
    """Rows that may be begun and not yet trained on, the step's own included."""
    max_rows: int
    """Rows that the table holds."""
    temperature: float
    """Of the rollout that makes the rows."""
    max_new_tokens: int
    """Longest answer of that rollout."""


def step_plan(spec: GraphSpec, table: str) -> StepPlan:
    """A table's arithmetic; for a graph without errors."""
    sizes, prompts = group_sizes(spec, table), prompts_per_step(spec, table)
    rollout = spec.nodes[str(answering(spec, table))].options
    flight = math.ceil((1 + _ahead(spec, table)) * prompts) * sizes.usual
    return StepPlan(
        samples_per_prompt=sizes.usual,
        smallest_group=sizes.smallest,
        largest_group=sizes.largest,
        prompts_per_step=prompts,
        samples_per_step=sizes.usual * prompts,
        rows_in_flight=flight,
        max_rows=max(flight + _waiting(spec, table, prompts, sizes), _lacking_one(prompts, sizes.largest)),
        temperature=rollout.temperature,
        max_new_tokens=rollout.max_new_tokens,
    )


def group_sizes(spec: GraphSpec, table: str) -> Sizes:
    options = spec.nodes[table].options
    if isinstance(options, SourceOptions):
        smallest, largest = options.budget.group_sizes(options.samples_per_prompt)
        usual = options.samples_per_prompt if options.budget.spends_budget else largest
        return Sizes(usual=usual, smallest=smallest, largest=largest)
    if copies(spec, table):
        return group_sizes(spec, str(leased_table(spec, table)))
    samples = options.samples_per_prompt
    return Sizes(usual=samples, smallest=samples, largest=samples)


def prompts_per_step(spec: GraphSpec, table: str) -> int:
    """Prompts of a training step; where nobody trains, those that a step of the parent makes."""
    if (trainer := trainer_on(spec, table)) is not None:
        return int(spec.nodes[trainer].options.prompts_per_step)
    parent = tables(spec)[table].parent
    if parent is None:
        return groups_made(spec, table)
    return groups_of_a_step(spec, parent, table)


def groups_of_a_step(spec: GraphSpec, parent: str, table: str) -> int:
    """The most groups of a branch's table that one step of its parent makes."""
    return prompts_per_step(spec, parent) * groups_of_a_prompt(spec, parent, table)


def groups_made(spec: GraphSpec, table: str) -> int:
    """Prompts that a source without a trainer keeps in flight: as many as a step of what it feeds takes."""
    asked = [
        math.ceil(prompts_per_step_below(spec, child) / groups_of_a_prompt(spec, table, child))
        for child, shape in tables(spec).items()
        if shape.parent == table
    ]
    return max(asked, default=1)


def groups_of_a_prompt(spec: GraphSpec, parent: str, table: str) -> int:
    """The most groups of a branch's table that one of its parent makes."""
    if copies(spec, table):
        return 1
    options = spec.nodes[table].options
    assert isinstance(options, BranchOptions)
    return group_sizes(spec, parent).usual * options.prompts_per_row


def groups_from(spec: GraphSpec, ancestor: str, table: str) -> int | None:
    """The most groups of a table that one step of a table above it makes; None: it is not above it."""
    parent = tables(spec)[table].parent
    if parent is None:
        return None
    above = prompts_per_step(spec, parent) if parent == ancestor else groups_from(spec, ancestor, parent)
    return None if above is None else above * groups_of_a_prompt(spec, parent, table)


def prompts_per_step_below(spec: GraphSpec, table: str) -> int:
    """Prompts of a branch's table that a step there takes, or feeds what is below it."""
    return groups_made(spec, table) if trainer_on(spec, table) is None else prompts_per_step(spec, table)


def _waiting(spec: GraphSpec, table: str, prompts: int, sizes: Sizes) -> int:
    """Rows beyond those in flight that find room.

    Of a branch: all that may come of its parent's rows, so that it never waits for a step of its own table
    while its parent waits for it.
    """
    options = spec.nodes[table].options
    if isinstance(options, SourceOptions):
        return math.ceil(options.waiting_steps * prompts) * sizes.usual
    parent = str(tables(spec)[table].parent)
    return groups_of_a_step(spec, parent, table) * sizes.largest * math.ceil(2 + _ahead(spec, parent))


def _lacking_one(prompts: int, largest: int) -> int:
    """A put beside all but one of a step's groups, were each the largest: then whoever writes prompts can
    always write what the trainer still lacks."""
    return (prompts - 1) * largest + min(prompts, MAX_PROMPTS_PER_PUT) * largest


def _ahead(spec: GraphSpec, table: str) -> float:
    staleness = table_staleness(spec, table)
    return UNBOUNDED_STEPS if math.isinf(staleness) else staleness


def table_staleness(spec: GraphSpec, table: str) -> float:
    """That of the policy that a table trains; the run's where nobody trains on it."""
    trainer = trainer_on(spec, table)
    return spec.staleness if trainer is None else spec.staleness_of(str(spec.nodes[trainer].policy))
