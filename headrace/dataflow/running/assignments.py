"""From a plan to what each replica is told: the plan's services and the addresses of one launch."""

from dataclasses import dataclass
from pathlib import Path

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.plan import Plan, ServicePlan
from headrace.dataflow.planning.topology import policy_of
from headrace.services.base import Flow
from headrace.services.host import Assignment

START_ORDER = ("trainer", "rollout", "reference", "teacher", "critic", "reward", "source")
"""The trainer first: its model takes longest to load, and all wait for its first weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where one launch keeps things."""

    run_dir: Path
    shared_dir: Path
    queue_address: str
    queue_timeout_s: float
    first_step: int
    resume: Path | None
    """The checkpoint that the run goes on from; None at the start."""


def assignments(spec: GraphSpec, planned: Plan, places: Places) -> list[Assignment]:
    """One for each replica, in the order in which they are started."""
    services = sorted(planned.services, key=lambda service: START_ORDER.index(service.kind))
    return [
        _assignment(spec, planned, places, service, index)
        for service in services
        for index in range(service.replicas)
    ]


def _assignment(
    spec: GraphSpec, planned: Plan, places: Places, service: ServicePlan, index: int
) -> Assignment:
    batch = planned.batches[service.table]
    flow = Flow(
        table=service.table,
        steps=spec.steps,
        first_step=places.first_step,
        samples_per_prompt=batch.largest_group,
        prompts_per_step=batch.prompts_per_step,
        staleness=spec.staleness,
        temperature=batch.temperature,
        max_new_tokens=batch.max_new_tokens,
        model=spec.policies[policy_of(spec, service.table)].model,
        no_progress_timeout_s=spec.no_progress_timeout_s,
    )
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
        flow=flow,
        resume=places.resume,
    )
