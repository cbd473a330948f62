"""A plan as a person reads it: services, mode, steps and rates, by policy where several are trained.

What is said of the whole run, its memory above all, comes last.
"""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace.dataflow.planning.arithmetic import StepPlan
from headrace.dataflow.planning.footprint import runs_model
from headrace.dataflow.planning.learning import MicroBatches, PolicyPlan
from headrace.dataflow.planning.memory import in_words
from headrace.dataflow.planning.plan import Plan, Rates, ServicePlan

INDENT = 8


def render(plan: Plan) -> RenderableType:
    """For `rich.console.Console.print`."""
    parts: list[RenderableType] = [
        Text.assemble((plan.name, "bold"), f"  {plan.steps} steps on {plan.runtime}")
    ]
    if len(plan.policies) > 1:
        for policy in dict.fromkeys((*plan.policies, *(each.policy_name for each in plan.services))):
            parts += _policy_block(plan, policy)
    else:
        parts.append(Padding(_services(plan, plan.services), (1, 0)))
        parts += _lines(line for policy in plan.policies for line in _policy(plan, policy))
    trained = {policy.table for policy in plan.policies.values()}
    parts += _lines(line for table in plan.batches if table not in trained for line in _table(plan, table))
    parts += _lines(_whole(plan))
    return Group(*parts)


def _policy_block(plan: Plan, name: str) -> Iterator[RenderableType]:
    told = f"  {plan.policies[name].steps} steps" if name in plan.policies else "  not trained"
    yield Padding(Text.assemble((name, "bold"), told), (1, 0, 0, 0))
    yield Padding(_services(plan, [each for each in plan.services if each.policy_name == name]), (1, 0))
    if name in plan.policies:
        yield from _lines(_policy(plan, name))


def _lines(told: Iterator[str]) -> Iterator[RenderableType]:
    """Each with its subject, the first word; what does not fit goes on below its text."""
    for line in told:
        subject, _, text = line.partition(" ")
        grid = Table.grid()
        grid.add_column(width=INDENT, no_wrap=True)
        grid.add_column()
        grid.add_row(subject, Text(text))
        yield grid


def _policy(plan: Plan, name: str) -> Iterator[str]:
    policy = plan.policies[name]
    yield f"mode {policy.mode}"
    yield f"model {_model(plan, name)}"
    yield from _table(plan, policy.table, policy.micro_batches)
    if policy.freeze:
        yield f"freeze the weights stay as they are in steps {_spans(policy)}"
    yield f"lr {name}: {_rates(plan.rates[name], policy.steps)}"


def _table(plan: Plan, table: str, micro: MicroBatches | None = None) -> Iterator[str]:
    batch = plan.batches[table]
    yield (
        f"step {batch.prompts_per_step} prompts x {batch.samples_per_prompt} samples = "
        f"{batch.samples_per_step} rows of '{table}'{_spread(batch)}"
    )
    if (branch := plan.branches.get(table)) is not None:
        yield f"from rows of '{branch.parent}'; a step of it makes {branch.groups_per_step} prompts at most"
    if micro is not None:
        yield f"passes {_passes(micro)}"
    yield (
        f"flight up to {batch.rows_in_flight} rows begun and not yet trained on, "
        f"{plan.tables[table].max_rows} rows in all"
    )


def _whole(plan: Plan) -> Iterator[str]:
    for group in dict.fromkeys(group for policy in plan.policies.values() for group in policy.barriers):
        yield f"barrier {', '.join(group)}: a step begins once all have come to it"
    for service in plan.services:
        if service.fused:
            yield f"fused {', '.join(service.fused)} within {service.node}"
    if plan.queue.durable:
        kept = ", rows that leave are archived" if plan.queue.archive else ""
        yield f"queue on disk in the run's directory, fsync {plan.queue.fsync}{kept}"
    yield f"memory {_memory(plan)}"


def _memory(plan: Plan) -> str:
    memory = plan.memory
    there = plan.cluster.memory_bytes if memory.on_one_machine else None
    of = "" if there is None else f" of {in_words(there)}"
    unknown = f"; not counted: the models {', '.join(memory.unknown_models)}" if memory.unknown_models else ""
    return (
        f"about {in_words(memory.total_bytes)}{of} in {memory.total_processes} processes, "
        f"{in_words(memory.shared_bytes)} of it shared weights and rows{unknown}"
    )


def _model(plan: Plan, name: str) -> str:
    """What each of its processes holds, and on what."""
    own = [each for each in plan.services if each.policy_name == name and runs_model(each.kind, each.options)]
    on_gpus = [each.node for each in own if each.gpus]
    where = f" on GPUs in {', '.join(on_gpus)}" if on_gpus else ""
    return f"{own[0].policy.model} in {own[0].policy.precision}{where}"


def _passes(micro: MicroBatches) -> str:
    of = f"of up to {micro.max_tokens} tokens a step"
    if micro.least == micro.most:
        return f"{micro.most} {of}"
    return f"{micro.least} to {micro.most} {of}, as answers are long and groups come together"


def _spans(policy: PolicyPlan) -> str:
    return ", ".join(f"{first + 1} to {end}" for first, end in policy.freeze)


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


def _services(plan: Plan, services: Sequence[ServicePlan]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("service", "kind", *_named(plan, "policy")):
        table.add_column(heading, no_wrap=True)
    for heading in ("replicas", "threads", "cpus", "gpus", "procs", "memory", *_cards(plan)):
        table.add_column(heading, justify="right", no_wrap=True)
    for service in services:
        table.add_row(*_cells(plan, service))
    return table


def _named(plan: Plan, policy: str) -> tuple[str, ...]:
    """Said in a column only where no heading says it."""
    return () if len(plan.policies) > 1 else (policy,)


def _cards(plan: Plan) -> tuple[str, ...]:
    """A column only where something is reckoned to lie on a card."""
    return ("on a gpu",) if plan.memory.on_gpus else ()


def _on_card(plan: Plan, service: str) -> str:
    parts = plan.memory.on_gpus.get(service)
    return "" if parts is None else in_words(sum(parts.values()))


def _cells(plan: Plan, service: ServicePlan) -> tuple[str, ...]:
    return (
        service.node,
        service.kind,
        *_named(plan, service.policy_name),
        str(service.replicas),
        str(service.threads),
        f"{service.cpus:g}",
        f"{service.gpus:g}",
        str(plan.memory.processes[service.node]),
        in_words(plan.memory.of_service(service.node)),
        *(_on_card(plan, service.node) for _ in _cards(plan)),
    )
