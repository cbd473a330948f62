"""Why a wait was in vain: what is missing, and which task or producer owes it."""

from collections import Counter
from collections.abc import Mapping

from headrace.transferqueue.state.flow import Flow
from headrace.transferqueue.state.parking import parked_for
from headrace.transferqueue.state.records import NOTHING
from headrace.transferqueue.state.table import Table


def why_no_lease(
    table: Table, task: str, *, version: int | None, tables: Mapping[str, Table] = NOTHING
) -> str:
    """One line for a lease that found nothing, from the table's state now; `tables` are those of tasks."""
    flow = table.flows[task]
    reasons = [
        *_missing(table, flow, tables),
        *_parked(table, flow),
        *_held(flow),
        *_bound(table, flow, version),
    ]
    if not reasons:
        reasons = ["no row is in the table; its producer owes them"]
    last = table.ledger.last_reasons.get(flow.index)
    if last is not None:
        reasons.append(f"last handed back: {last}")
    for uid, error in list(table.ledger.quarantine.items())[-1:]:
        reasons.append(f"{table.ledger.quarantined} rows quarantined, the last {uid}: {error}")
    return f"no row of table {table.spec.name!r} for task {task!r}: " + "; ".join(reasons)


def why_no_room(table: Table, rows: int, size: int) -> str:
    """One line for a put that found no room."""
    spec, shelf = table.spec, table.shelf
    slow = max(table.flows.values(), key=lambda flow: flow.pending)
    return (
        f"no room in table {spec.name!r} for {rows} rows and {size} bytes: it holds {len(shelf.rows)} of "
        f"{spec.max_rows} rows and {shelf.bytes} of {spec.max_bytes} bytes; most wait for task "
        f"{slow.task.name!r} ({slow.pending} rows)"
    )


def _missing(table: Table, flow: Flow, tables: Mapping[str, Table]) -> list[str]:
    owners = {column: f"task {task.name!r}" for task in table.spec.tasks for column in task.writes}
    for column, task in table.spec.owed.items():
        where = f" (from table {tables[task].spec.name!r})" if task in tables else ""
        owners[column] = f"task {task!r}{where}"
    lacking: Counter[str] = Counter()
    for row in table.shelf.rows.values():
        if not (row.done | row.leased | row.ready | row.parked) & flow.bit:
            lacking.update(n for n, bit in table.bits.items() if flow.reads & bit and not row.written & bit)
    return [
        f"{count} rows lack {name!r}, owed by {owners.get(name, 'the producer')}"
        for name, count in lacking.items()
    ]


def _parked(table: Table, flow: Flow) -> list[str]:
    count = parked_for(table, flow)
    nodes = ", ".join(map(repr, sorted(table.away)))
    return [f"{count} rows are parked: their cells are on nodes that are away ({nodes})"] if count else []


def _held(flow: Flow) -> list[str]:
    leased = ", ".join(f"{count} by {holder!r}" for holder, count in flow.leased.items())
    return [f"leased already: {leased}"] if leased else []


def _bound(table: Table, flow: Flow, version: int | None) -> list[str]:
    window = table.window
    if window is None or window.is_open or not flow.ready:
        return [f"{flow.ready} rows are ready in groups that are not whole"] if flow.ready else []
    counts = f"{window.consumed} units consumed, {window.outstanding} outstanding"
    if flow.task.kind == "begin" and version is not None:
        return [
            f"the gate is closed for {flow.ready} ready rows at version {version}: {counts}, staleness "
            f"{window.staleness:g}; task {_trainer(table)} owes step {window.step}"
        ]
    if flow.task.kind == "train" and window.places < 1:
        return [f"step {window.step} has all its {window.units_per_step} units: commit it"]
    return [f"{flow.ready} rows are ready, in groups not whole or held back for units due earlier ({counts})"]


def _trainer(table: Table) -> str:
    return repr(table.spec.train.name) if table.spec.train is not None else "none"
