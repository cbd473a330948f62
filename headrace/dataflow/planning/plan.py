"""From a checked graph and a cluster to what runs where: services, tables and the arithmetic of a step.

A plan is data and is complete: the launch adds nothing to it but addresses. It asks for a graph that
`check` found no error in.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.dataflow.language.spec import GraphSpec, NodeKind, NodeOptions, NodeSpec
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.roles import ROLES, reads, writes
from headrace.dataflow.planning.topology import order, policy_of, sources, tables
from headrace.services.options import (
    OptimizerOptions,
    PolicyOptions,
    QueueOptions,
    RolloutOptions,
    SourceOptions,
    TrainerOptions,
)
from headrace.services.source.hearing import READS, task_name
from headrace.services.source.stream import MAX_PROMPTS_PER_PUT
from headrace.services.trainer.schedule import scheduled
from headrace.transferqueue.schema import Column, TableSpec, Task

UNBOUNDED_STEPS = 4.0
"""Batches of room for running ahead where `staleness` is inf: table rows are then the only bound.

The rows of the source's `ahead_steps` are in the same table and are begun as well.
"""


Options = TypeVar("Options", bound=NodeOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """One node, resolved for the cluster."""

    node: str
    kind: NodeKind
    table: str
    """Table whose rows it works on; a node's task has the node's name."""
    policy_name: str
    """Policy whose weights or tokenizer it uses."""
    policy: PolicyOptions
    replicas: int
    threads: int
    """Compute threads of a replica."""
    cpus: float
    """Cores reserved for a replica."""
    gpus: float
    """GPUs reserved for a replica."""
    options: NodeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The arithmetic of one training step of a table."""

    samples_per_prompt: int
    """Mean over a step's prompts; where the budget follows from the prompts, the most."""
    smallest_group: int
    largest_group: int
    prompts_per_step: int
    samples_per_step: int
    rows_in_flight: int
    """Rows that may be begun and not yet trained on, the step's own included."""
    temperature: float
    """Of the rollout that makes the rows."""
    max_new_tokens: int
    """Longest answer of that rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Learning rates of a policy at the first, middle and last optimizer step of the run.

    `middle` and `last` are None where the loss decides.
    """

    first: float
    middle: float | None
    last: float | None
    optimizer_steps: int
    """Of the whole run: training steps times the updates of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run where. `tables`, `batches` and `rates` are keyed by table, table and policy."""

    name: str
    runtime: str
    steps: int
    mode: str
    """What the staleness makes of the run, in words."""
    queue: QueueOptions
    cluster: Cluster
    services: tuple[ServicePlan, ...]
    """In the order of the flow."""
    tables: Mapping[str, TableSpec] = field(repr=False)
    batches: Mapping[str, StepPlan]
    rates: Mapping[str, Rates]

    def of_kind(self, kind: NodeKind) -> tuple[ServicePlan, ...]:
        return tuple(service for service in self.services if service.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; an infinite staleness is the text "inf"."""
        return _plain(self)


def plan(spec: GraphSpec, cluster: Cluster) -> Plan:
    """The plan of a graph without errors on a cluster."""
    batches = {table: _batch(spec, members) for table, members in tables(spec).items()}
    return Plan(
        name=spec.name,
        runtime=spec.runtime,
        steps=spec.steps,
        mode=mode(spec.staleness),
        queue=spec.queue,
        cluster=cluster,
        services=tuple(_service(spec, name, cluster) for name in order(spec)),
        tables={
            table: _table(spec, table, members, batches[table]) for table, members in tables(spec).items()
        },
        batches=batches,
        rates={
            str(node.policy): rates(
                spec.policies[str(node.policy)].optimizer, spec.steps * updates_per_batch(node)
            )
            for node in spec.of_kind("trainer").values()
        },
    )


def mode(staleness: float) -> str:
    """What a staleness makes of a run, in words."""
    if staleness == 0:
        return "synchronous, streaming: groups are trained on as they finish, none begins on old weights"
    if math.isinf(staleness):
        return "asynchronous, without a bound on staleness: only the table's rows hold generation back"
    ahead = f"generation runs up to {staleness:g} {'batch' if staleness <= 1 else 'batches'} ahead"
    kind = "partly synchronous" if staleness < 1 else "asynchronous"
    return f"{kind}: {ahead}, no sample is staler than {math.ceil(staleness)}"


def rates(optimizer: OptimizerOptions, steps: int) -> Rates:
    """Learning rates at the optimizer steps 0, steps // 2 and steps - 1."""
    if optimizer.schedule == "greedy":
        return Rates(first=optimizer.lr, middle=None, last=None, optimizer_steps=steps)
    first, middle, last = (scheduled(optimizer, step, steps) for step in (0, steps // 2, steps - 1))
    return Rates(first=first, middle=middle, last=last, optimizer_steps=steps)


def updates_per_batch(trainer: NodeSpec) -> int:
    """Optimizer steps that a trainer's node takes in each training step."""
    options = trainer.options
    return options.update.updates_per_batch if isinstance(options, TrainerOptions) else 0


def _service(spec: GraphSpec, name: str, cluster: Cluster) -> ServicePlan:
    node = spec.nodes[name]
    (table,) = sources(spec, name)
    policy = policy_of(spec, name)
    return ServicePlan(
        node=name,
        kind=node.kind,
        table=table,
        policy_name=policy,
        policy=spec.policies[policy],
        replicas=node.options.replicas,
        threads=node.options.threads or threads(spec, node, cluster.cores),
        cpus=node.options.cpus,
        gpus=node.options.gpus,
        options=node.options,
    )


def threads(spec: GraphSpec, node: NodeSpec, cores: int) -> int:
    """Threads of a replica that were left open.

    Above staleness 0 all nodes that compute do so at once, and their replicas share the cores. At 0 a trainer
    has every core for most of a step; rollouts overlap with its start and keep to half of them, since threads
    of two processes that wait for each other's cores cost several times what they give.
    """
    if not ROLES[node.kind].computes:
        return 1
    if spec.staleness > 0:
        at_once = [n for n in spec.nodes.values() if ROLES[n.kind].computes]
        return max(1, cores // sum(n.options.replicas for n in at_once))
    available = cores // 2 if node.kind == "rollout" else cores
    return max(1, available // node.options.replicas)


def _batch(spec: GraphSpec, members: tuple[str, ...]) -> StepPlan:
    source = _options(spec, members, SourceOptions)
    trainer = _options(spec, members, TrainerOptions)
    rollout = _options(spec, members, RolloutOptions)
    smallest, largest = source.budget.group_sizes(source.samples_per_prompt)
    samples = source.samples_per_prompt if source.budget.spends_budget else largest
    return StepPlan(
        samples_per_prompt=samples,
        smallest_group=smallest,
        largest_group=largest,
        prompts_per_step=trainer.prompts_per_step,
        samples_per_step=samples * trainer.prompts_per_step,
        rows_in_flight=math.ceil((1 + _ahead(spec)) * trainer.prompts_per_step) * samples,
        temperature=rollout.temperature,
        max_new_tokens=rollout.max_new_tokens,
    )


def _table(spec: GraphSpec, table: str, members: tuple[str, ...], batch: StepPlan) -> TableSpec:
    columns = {column.name: column for name in members for column in writes(spec.nodes[name])}
    source = _options(spec, members, SourceOptions)
    feedback = [_feedback(table)] if source.hears else []
    return TableSpec(
        name=table,
        columns=tuple(columns.values()),
        tasks=(
            *(_task(spec, name, columns) for name in members if ROLES[spec.nodes[name].kind].task),
            *feedback,
        ),
        policy=policy_of(spec, table),
        units_per_step=batch.prompts_per_step,
        staleness=spec.staleness,
        max_rows=_room(source, batch),
        rewindable=spec.queue.durable,
    )


def _room(source: SourceOptions, batch: StepPlan) -> int:
    """Rows that the table holds: those in flight and those waiting.

    Never less than a put beside all but one of a step's groups, were each the largest: then the source can
    always write what the trainer still lacks.
    """
    waiting = math.ceil(source.waiting_steps * batch.prompts_per_step) * batch.samples_per_prompt
    lacking_one = (batch.prompts_per_step - 1) * batch.largest_group
    put = min(batch.prompts_per_step, MAX_PROMPTS_PER_PUT) * batch.largest_group
    return max(batch.rows_in_flight + waiting, lacking_one + put)


def _feedback(source: str) -> Task:
    """How a source hears of whole groups, once they are scored."""
    return Task(name=task_name(source), reads=READS, needs_full_group=True)


def _task(spec: GraphSpec, name: str, columns: Mapping[str, Column]) -> Task:
    node = spec.nodes[name]
    role = ROLES[node.kind]
    assert role.task is not None
    return Task(
        name=name,
        reads=tuple(column for column in reads(node) if column in columns),
        writes=tuple(column.name for column in writes(node)),
        kind=role.task,
        needs_full_group=role.needs_full_group,
    )


def _ahead(spec: GraphSpec) -> float:
    return UNBOUNDED_STEPS if math.isinf(spec.staleness) else spec.staleness


def _options(spec: GraphSpec, members: tuple[str, ...], cls: type[Options]) -> Options:
    return next(options for name in members if isinstance(options := spec.nodes[name].options, cls))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {member.name: _plain(getattr(value, member.name)) for member in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return "inf" if value == math.inf else value
