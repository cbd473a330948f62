"""From a checked graph and a cluster to what runs where: services, tables and the arithmetic of a step.

A plan is data and is complete: the launch adds nothing to it but addresses. It asks for a graph that
`check` found no error in.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.dataflow.language.spec import GraphSpec, NodeKind, NodeOptions, NodeSpec
from headrace.dataflow.planning.arithmetic import StepPlan, step_plan, table_staleness
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.footprint import ranks
from headrace.dataflow.planning.learning import BranchPlan, PolicyPlan, branches, policies
from headrace.dataflow.planning.memory import Memory, memory
from headrace.dataflow.planning.modes import mode
from headrace.dataflow.planning.precision import settled
from headrace.dataflow.planning.roles import (
    copies,
    fused,
    held_columns,
    leased_columns,
    marks,
    resolved,
    writes,
)
from headrace.dataflow.planning.topology import (
    is_service,
    leased_table,
    members,
    order,
    policy_of,
    table_of,
    tables,
    trainer_on,
)
from headrace.services.kinds import kind_of
from headrace.services.options import (
    OptimizerOptions,
    PolicyOptions,
    QueueOptions,
    SourceOptions,
    TrainerOptions,
)
from headrace.services.source.hearing import READS, task_name
from headrace.services.trainer.schedule import scheduled
from headrace.transferqueue.schema import Origin, TableSpec, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """One node, resolved for the cluster."""

    node: str
    kind: NodeKind
    table: str
    """Table whose rows it works on, or makes where it leases none; a node's task has the node's name. Empty
    for an eval, which has rows of its own."""
    writes_to: str
    """Table that its columns stand in; another one for a branch and a join."""
    fused: tuple[str, ...]
    """Transforms that run within it, in order."""
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
    """What will run where. `tables` and `batches` are keyed by table, `rates` and `policies` by policy."""

    name: str
    runtime: str
    steps: int
    mode: str
    """What the staleness makes of the run, in words."""
    modes: Mapping[str, str]
    """As `mode`, of each policy that is trained."""
    queue: QueueOptions
    cluster: Cluster
    services: tuple[ServicePlan, ...]
    """In the order of the flow."""
    tables: Mapping[str, TableSpec] = field(repr=False)
    batches: Mapping[str, StepPlan]
    rates: Mapping[str, Rates]
    policies: Mapping[str, PolicyPlan]
    """Those that are trained."""
    branches: Mapping[str, BranchPlan]
    """Tables whose rows come of another's."""
    memory: Memory

    def of_kind(self, kind: NodeKind) -> tuple[ServicePlan, ...]:
        return tuple(service for service in self.services if service.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; an infinite staleness is the text "inf"."""
        return _plain(self)


def plan(spec: GraphSpec, cluster: Cluster) -> Plan:
    """The plan of a graph without errors on a cluster."""
    spec = settled(spec)
    batches = {table: step_plan(spec, table) for table in tables(spec)}
    trainers = spec.of_kind("trainer")
    return Plan(
        name=spec.name,
        runtime=spec.runtime,
        steps=max((spec.steps_of(name) for name in trainers), default=spec.steps),
        mode=mode(spec.staleness),
        modes={str(node.policy): mode(spec.staleness_of(str(node.policy))) for node in trainers.values()},
        queue=spec.queue,
        cluster=cluster,
        services=tuple(_service(spec, name, cluster) for name in order(spec) if is_service(spec, name)),
        tables={table: _table(spec, table, batches[table]) for table in batches},
        batches=batches,
        rates={
            str(node.policy): rates(
                spec.policies[str(node.policy)].optimizer, spec.steps_of(name) * updates_per_batch(node)
            )
            for name, node in trainers.items()
        },
        policies=policies(spec),
        branches=branches(spec),
        memory=memory(spec),
    )


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
    policy = policy_of(spec, name)
    home = table_of(spec, name) or ""
    return ServicePlan(
        node=name,
        kind=node.kind,
        table=leased_table(spec, name) or home,
        writes_to=home,
        fused=fused(spec, name),
        policy_name=policy,
        policy=spec.policies[policy],
        replicas=node.options.replicas,
        threads=node.options.threads or threads(spec, node, cluster.cores),
        cpus=node.options.cpus,
        gpus=node.options.gpus,
        options=resolved(spec, name),
    )


def threads(spec: GraphSpec, node: NodeSpec, cores: int) -> int:
    """Threads of a replica, of each rank of a trainer, that were left open.

    Above staleness 0, and where several policies are trained, all nodes that compute do so at once, and
    their replicas share the cores. At 0 a trainer has every core for most of a step; rollouts overlap with
    its start and keep to half of them, since threads of two processes that wait for each other's cores cost
    several times what they give.
    """
    if not kind_of(node.kind).computes:
        return 1
    at_once = [n for n in spec.nodes.values() if kind_of(n.kind).computes]
    trainers = spec.of_kind("trainer").values()
    if len(trainers) > 1 or any(spec.staleness_of(str(n.policy)) > 0 for n in trainers):
        return max(1, cores // sum(n.options.replicas * ranks(n.options) for n in at_once))
    available = cores // 2 if node.kind == "rollout" else cores
    return max(1, available // (node.options.replicas * ranks(node.options)))


def _table(spec: GraphSpec, table: str, batch: StepPlan) -> TableSpec:
    shape, source = tables(spec)[table], spec.nodes[table].options
    trained = _trained_on(spec, table)
    gated_by = trained if trained in _asked(spec, table) else None
    feedback = [_feedback(table)] if isinstance(source, SourceOptions) and source.hears else []
    return TableSpec(
        name=table,
        columns=held_columns(spec, table),
        tasks=(
            *(_task(spec, name) for name in shape.readers if is_service(spec, name)),
            *feedback,
        ),
        policy=gated_by,
        trains=None if gated_by else trained,
        units_per_step=batch.prompts_per_step,
        staleness=table_staleness(spec, table),
        max_rows=batch.max_rows,
        rewindable=spec.queue.durable and trained is not None,
        origin=origin(spec, table) if members(spec, table, "join") else None,
        owed=_owed(spec, table),
    )


def _asked(spec: GraphSpec, table: str) -> set[str | None]:
    """Policies that answer a table's prompts; where the one that is trained is among them, its versions hold
    generation back."""
    return {spec.nodes[name].policy for name in members(spec, table, "rollout")}


def _trained_on(spec: GraphSpec, table: str) -> str | None:
    trainer = trainer_on(spec, table)
    return None if trainer is None else spec.nodes[trainer].policy


def origin(spec: GraphSpec, table: str) -> Origin | None:
    """How the groups of a branch's prompts are numbered; None where rows keep their numbers: a source's, and
    copies."""
    parent = leased_table(spec, table)
    if parent is None or copies(spec, table):
        return None
    return Origin(
        table=parent,
        samples=step_plan(spec, parent).largest_group,
        prompts=spec.nodes[table].options.prompts_per_row,
    )


def _owed(spec: GraphSpec, table: str) -> dict[str, str]:
    """Columns that joins bring into a table."""
    joins = (name for name in tables(spec)[table].writers if spec.nodes[name].kind == "join")
    return {column.name: name for name in joins for column in writes(spec, name)}


def _feedback(source: str) -> Task:
    """How a source hears of whole groups, once they are scored."""
    return Task(name=task_name(source), reads=READS, needs_full_group=True)


def _task(spec: GraphSpec, name: str) -> Task:
    node = spec.nodes[name]
    kind = kind_of(node.kind)
    assert kind.task is not None
    own = () if kind.starts_table or node.kind == "join" else writes(spec, name)
    return Task(
        name=name,
        reads=leased_columns(spec, name),
        writes=tuple(column.name for column in (*own, *marks(spec, name))),
        kind=kind.task,
        needs_full_group=kind.needs_full_group or copies(spec, name),
    )


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {member.name: _plain(getattr(value, member.name)) for member in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return "inf" if value == math.inf else value
