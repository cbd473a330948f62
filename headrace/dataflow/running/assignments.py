"""From a plan to what each replica is told: the plan's services and the addresses of one launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.plan import Plan, ServicePlan, origin
from headrace.dataflow.planning.roles import writes
from headrace.dataflow.planning.topology import (
    answering,
    leased_table,
    members,
    policy_of,
    tables,
    trainer_of,
    trainer_on,
)
from headrace.services.base import Bridge, Flow
from headrace.services.host import Assignment

FIRST, LAST = ("trainer", "rollout"), ("source",)
"""A trainer's model takes longest to load and all wait for its first weights; prompts come when the rest is
there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a table's training begins in this launch."""

    step: int = 0
    checkpoint: Path | None = None
    """What it goes on from; None: the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where one launch keeps things."""

    run_dir: Path
    shared_dir: Path
    queue_address: str
    queue_timeout_s: float
    starts: Mapping[str, Start]
    """By table; of those that nobody trains on the default."""
    checkpoints: Mapping[str, Path]
    """Folders of them, by policy."""


def assignments(spec: GraphSpec, planned: Plan, places: Places) -> list[Assignment]:
    """One for each replica, in the order in which they are started."""
    services = sorted(planned.services, key=_turn)
    return [
        _assignment(spec, planned, places, service, index)
        for service in services
        for index in range(service.replicas)
    ]


def _turn(service: ServicePlan) -> int:
    if service.kind in FIRST:
        return FIRST.index(service.kind)
    return len(FIRST) + (service.kind in LAST)


def _assignment(
    spec: GraphSpec, planned: Plan, places: Places, service: ServicePlan, index: int
) -> Assignment:
    start = places.starts.get(_followed(spec, service), Start())
    return Assignment(
        kind=service.kind,
        node=service.node,
        index=index,
        run=spec.name,
        run_dir=places.run_dir,
        shared_dir=places.shared_dir,
        queue_address=places.queue_address,
        queue_timeout_s=places.queue_timeout_s,
        seed=spec.seed,
        threads=service.threads,
        options=service.options,
        policy_name=service.policy_name,
        policy=service.policy,
        policy_is_trained=trainer_of(spec, service.policy_name) is not None,
        flow=_flow(spec, planned, service, start),
        checkpoints=places.checkpoints.get(service.policy_name),
        bridge=_bridge(spec, service),
        transforms=tuple(spec.nodes[name].options for name in service.fused),
        resume=start.checkpoint,
    )


def _followed(spec: GraphSpec, service: ServicePlan) -> str:
    """The table whose training a service goes along with; of an eval that of its policy's trainer."""
    trainer = None if service.table else trainer_of(spec, service.policy_name)
    return service.table if trainer is None else str(leased_table(spec, trainer))


def _flow(spec: GraphSpec, planned: Plan, service: ServicePlan, start: Start) -> Flow:
    if not service.table:
        return _alone(spec, planned, service, start)
    batch, table = planned.batches[service.table], planned.tables[service.table]
    trainer = trainer_on(spec, service.table)
    return Flow(
        table=service.table,
        steps=planned.steps if trainer is None else spec.steps_of(trainer),
        first_step=start.step,
        samples_per_prompt=batch.largest_group,
        prompts_per_step=batch.prompts_per_step,
        staleness=table.staleness,
        temperature=batch.temperature,
        max_new_tokens=batch.max_new_tokens,
        model=_answering_model(spec, service.table),
        no_progress_timeout_s=spec.no_progress_timeout_s,
        deterministic=spec.deterministic,
        from_source=not spec.nodes[service.table].inputs,
        own_rows=table.policy is not None,
        trainers=len(spec.of_kind("trainer")),
        barrier=_barrier(spec, service),
    )


def _alone(spec: GraphSpec, planned: Plan, service: ServicePlan, start: Start) -> Flow:
    """Of an eval, which has prompts and answers of its own and follows its policy's trainer."""
    trainer = trainer_of(spec, service.policy_name)
    return Flow(
        table="",
        steps=planned.steps if trainer is None else spec.steps_of(trainer),
        first_step=start.step,
        samples_per_prompt=service.options.samples_per_prompt,
        prompts_per_step=service.options.prompts,
        staleness=0.0,
        temperature=service.options.temperature,
        max_new_tokens=service.options.max_new_tokens,
        model=service.policy.model,
        no_progress_timeout_s=spec.no_progress_timeout_s,
        deterministic=spec.deterministic,
    )


def _answering_model(spec: GraphSpec, table: str) -> str:
    return spec.policies[policy_of(spec, str(answering(spec, table)))].model


def _barrier(spec: GraphSpec, service: ServicePlan) -> tuple[str, ...]:
    if service.kind != "trainer":
        return ()
    groups = [group for group in spec.barrier if service.policy_name in group]
    return tuple(dict.fromkeys(p for group in groups for p in group if p != service.policy_name))


def _bridge(spec: GraphSpec, service: ServicePlan) -> Bridge | None:
    if service.kind not in ("branch", "join"):
        return None
    branch = service.node if service.kind == "branch" else service.table
    parent = str(tables(spec)[branch].parent)
    return Bridge(
        table=service.writes_to,
        origin=origin(spec, branch),
        columns=tuple(column.name for column in writes(spec, branch)),
        owed=tuple(spec.nodes[join].options.column for join in members(spec, branch, "join")),
        policies=tuple(spec.policies),
        answered_by=policy_of(spec, str(answering(spec, parent))),
    )
