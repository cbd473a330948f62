"""Counts a table for its stats, from figures it keeps anyway; rows are looked at for live staleness alone."""

from collections import Counter

from headrace.transferqueue.state.parking import parked_for, parked_rows
from headrace.transferqueue.state.staleness import INFINITE
from headrace.transferqueue.state.table import Table
from headrace.transferqueue.stats import TableStats, TaskStats


def table_stats(table: Table, now: float) -> TableStats:
    """The figures of one table at `now`, in its own clock."""
    shelf, ledger, window = table.shelf, table.ledger, table.window
    in_flight, in_queue = _live_staleness(table)
    oldest = next(iter(shelf.rows.values()), None)
    return TableStats(
        rows=len(shelf.rows),
        tasks={name: _task_stats(table, name) for name in table.flows},
        bytes=shelf.bytes,
        leases=sum(1 for _ in table.leases),
        oldest_age_s=0.0 if oldest is None else now - oldest.created_s,
        parked=parked_rows(table),
        ended=table.ended,
        step=ledger.step,
        staleness=table.spec.staleness if window is None else window.staleness,
        bound=_bound(table),
        consumed_units=0 if window is None else window.consumed,
        outstanding_units=0 if window is None else window.outstanding,
        created=ledger.created,
        newest_group=ledger.newest_group,
        trained=ledger.trained,
        finished=ledger.finished,
        dropped=dict(ledger.dropped),
        quarantined=ledger.quarantined,
        quarantine=dict(ledger.quarantine),
        violations=ledger.violations,
        duplicated=ledger.duplicated,
        lost=ledger.lost(len(shelf.rows) - shelf.consumed),
        staleness_trained=dict(ledger.staleness),
        staleness_in_flight=in_flight,
        staleness_in_queue=in_queue,
        dispatched_length_mean=_mean(ledger.dispatched_lengths),
        trained_length_mean=_mean(ledger.trained_lengths),
    )


def _bound(table: Table) -> float:
    if table.window is None or table.window.slack == INFINITE:
        return INFINITE
    begun = (row.unit.slack for row in table.shelf.rows.values() if row.version >= 0 and not row.consumed)
    return max([table.window.slack, *begun])


def _live_staleness(table: Table) -> tuple[dict[int, int], dict[int, int]]:
    in_flight: Counter[int] = Counter()
    in_queue: Counter[int] = Counter()
    if table.window is None or table.window.is_open:
        return {}, {}
    owed = 0
    for flow in table.flows.values():
        owed |= flow.writes if flow.task.kind == "begin" else 0
    for row in table.shelf.rows.values():
        if row.version >= 0 and not row.consumed:
            generated = row.written & owed == owed
            (in_queue if generated else in_flight)[table.ledger.step - row.version] += 1
    return dict(in_flight), dict(in_queue)


def _task_stats(table: Table, name: str) -> TaskStats:
    flow = table.flows[name]
    leased, parked = sum(flow.leased.values()), parked_for(table, flow)
    return TaskStats(
        waiting=flow.pending - flow.ready - leased - parked,
        parked=parked,
        ready=flow.ready,
        leased=leased,
        done=len(table.shelf.rows) - flow.pending,
        over=name in table.over,
    )


def _mean(total: list[int]) -> float:
    return total[1] / total[0] if total[0] else 0.0
