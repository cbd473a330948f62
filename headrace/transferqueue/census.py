"""Counts a table for its stats, from figures it keeps anyway; nothing is scanned."""

from headrace.transferqueue.stats import TableStats, TaskStats
from headrace.transferqueue.table import Table


def table_stats(table: Table, now: float) -> TableStats:
    """The figures of one table at `now`, in its own clock."""
    shelf, ledger, window = table.shelf, table.ledger, table.window
    oldest = next(iter(shelf.rows.values()), None)
    return TableStats(
        rows=len(shelf.rows),
        tasks={name: _task_stats(table, name) for name in table.flows},
        bytes=shelf.bytes,
        leases=sum(1 for _ in table.leases),
        oldest_age_s=0.0 if oldest is None else now - oldest.created_s,
        ended=table.ended,
        step=ledger.step,
        staleness=table.spec.staleness if window is None else window.staleness,
        consumed_units=0 if window is None else window.consumed,
        outstanding_units=0 if window is None else window.outstanding,
        created=ledger.created,
        trained=ledger.trained,
        finished=ledger.finished,
        dropped=dict(ledger.dropped),
        quarantined=ledger.quarantined,
        quarantine=dict(ledger.quarantine),
        violations=ledger.violations,
        duplicated=ledger.duplicated,
        lost=ledger.lost(len(shelf.rows) - shelf.consumed),
        staleness_trained=dict(ledger.staleness),
        dispatched_length_mean=_mean(ledger.dispatched_lengths),
        trained_length_mean=_mean(ledger.trained_lengths),
    )


def _task_stats(table: Table, name: str) -> TaskStats:
    flow = table.flows[name]
    leased = sum(flow.leased.values())
    return TaskStats(
        waiting=flow.pending - flow.ready - leased,
        ready=flow.ready,
        leased=leased,
        done=len(table.shelf.rows) - flow.pending,
    )


def _mean(total: list[int]) -> float:
    return total[1] / total[0] if total[0] else 0.0
