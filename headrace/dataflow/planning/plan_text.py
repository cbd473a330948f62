"""A plan as a person reads it: the services, the step's arithmetic, the mode and the learning rates."""

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace.dataflow.planning.arithmetic import StepPlan
from headrace.dataflow.planning.plan import Plan, Rates, ServicePlan


def render(plan: Plan) -> RenderableType:
    """For `rich.console.Console.print`."""
    parts: list[RenderableType] = [
        Text.assemble((plan.name, "bold"), f"  {plan.steps} steps on {plan.runtime}")
    ]
    parts += [Text(f"mode    {plan.mode}"), Padding(_services(plan), (1, 0))]
    for table, batch in plan.batches.items():
        limit = plan.tables[table].max_rows
        parts += [
            Text(
                f"step    {batch.prompts_per_step} prompts x {batch.samples_per_prompt} samples = "
                f"{batch.samples_per_step} rows of '{table}'{_spread(batch)}"
            ),
            Text(
                f"flight  up to {batch.rows_in_flight} rows begun and not yet trained on, {limit} rows in all"
            ),
        ]
    if plan.queue.durable:
        kept = ", rows that leave are archived" if plan.queue.archive else ""
        parts.append(Text(f"queue   on disk in the run's directory, fsync {plan.queue.fsync}{kept}"))
    for policy, rates in plan.rates.items():
        parts.append(Text(f"lr      {policy}: {_rates(rates, plan.steps)}"))
    return Group(*parts)


def _spread(batch: StepPlan) -> str:
    """What a budget makes of the groups; nothing where all are alike."""
    if batch.smallest_group == batch.largest_group:
        return ""
    mean = "on average" if batch.samples_per_prompt < batch.largest_group else "at most"
    return f" {mean}, {batch.smallest_group} to {batch.largest_group} to a prompt"


def _rates(rates: Rates, steps: int) -> str:
    total = rates.optimizer_steps
    what = "step" if total == steps else "optimizer step"
    if rates.middle is None or rates.last is None:
        return f"{rates.first:g} at {what} 1, then by the loss"
    text = (
        f"{rates.first:g} at {what} 1, {rates.middle:g} at {what} {total // 2 + 1}, "
        f"{rates.last:g} at {what} {total}"
    )
    return text if total == steps else f"{text}; {total // steps} to a training step"


def _services(plan: Plan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("service", "kind", "policy"):
        table.add_column(heading, no_wrap=True)
    for heading in ("replicas", "threads", "cpus", "gpus"):
        table.add_column(heading, justify="right")
    for service in plan.services:
        table.add_row(*_cells(service))
    return table


def _cells(service: ServicePlan) -> tuple[str, ...]:
    return (
        service.node,
        service.kind,
        service.policy_name,
        str(service.replicas),
        str(service.threads),
        f"{service.cpus:g}",
        f"{service.gpus:g}",
    )
