"""Figures of a running queue as Prometheus reads them."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.transferqueue.stats import Stats, TableStats

_GAUGES = {
    "rows": "Rows in the table.",
    "bytes": "Payload that rows in the table need.",
    "leases": "Leases held.",
    "oldest_age_s": "Seconds since the oldest row was put.",
    "step": "Next step to commit.",
    "staleness": "The knob as it is now.",
    "consumed_units": "Units of committed steps and of the step in training.",
    "outstanding_units": "Units begun and not consumed.",
    "dispatched_length_mean": "Tokens per generated row.",
    "trained_length_mean": "Tokens per row trained on.",
    "trained_over_dispatched_length": "Mean length trained on over mean length generated.",
    "lost": "Rows created that are neither in the table nor accounted for.",
}
_COUNTERS = {
    "created": "Rows created.",
    "trained": "Rows trained on.",
    "finished": "Rows that every task has acknowledged.",
    "quarantined": "Rows that failed too often.",
    "violations": "Rows trained on beyond their staleness bound.",
    "duplicated": "Rows offered to a second commit.",
}
_QUEUE = {
    "segments": "Segments of payload.",
    "segment_bytes": "Size of the segments, and of files that lie idle to be written again.",
    "clients": "Clients connected.",
    "waiting": "Requests that wait for rows, for room or for a version.",
}
_HISTOGRAMS = {
    "staleness_trained": "Rows trained on, by staleness.",
    "staleness_in_flight": "Rows begun and not yet generated, by staleness so far.",
    "staleness_in_queue": "Rows generated and not yet trained on, by staleness so far.",
}


def prometheus_text(stats: Stats) -> str:
    """The exposition of one look at the queue, for an endpoint to serve."""
    registry = CollectorRegistry()
    registry.register(_Look(stats))
    return generate_latest(registry).decode()


class _Look(Collector):
    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats, tables = self._stats, self._stats.tables
        for name, text in _QUEUE.items():
            yield GaugeMetricFamily(f"headrace_queue_{name}", text, value=getattr(stats, name))
        yield CounterMetricFamily(
            "headrace_queue_refused", "Messages and peers refused.", value=stats.malformed
        )
        yield CounterMetricFamily(
            "headrace_queue_forgotten", "Clients that went without a goodbye.", value=stats.forgotten
        )
        versions = GaugeMetricFamily(
            "headrace_policy_version", "Newest published version.", labels=["policy"]
        )
        for policy, version in stats.policies.items():
            versions.add_metric([policy], version)
        yield versions
        for name, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"headrace_table_{name}", text, labels=["table"])
            for table, figures in tables.items():
                gauge.add_metric([table], getattr(figures, name))
            yield gauge
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"headrace_table_{name}", text, labels=["table"])
            for table, figures in tables.items():
                counter.add_metric([table], getattr(figures, name))
            yield counter
        yield from _by_state(tables)
        yield from _by_reason(tables)
        yield from _by_staleness(tables)


def _by_state(tables: dict[str, TableStats]) -> Iterator[Metric]:
    gauge = GaugeMetricFamily(
        "headrace_task_rows", "Rows by state for a task.", labels=["table", "task", "state"]
    )
    over = GaugeMetricFamily(
        "headrace_task_over", "1 for a task that takes no further row.", labels=["table", "task"]
    )
    for table, figures in tables.items():
        for task, counts in figures.tasks.items():
            for state in ("waiting", "parked", "ready", "leased", "done"):
                gauge.add_metric([table, task, state], getattr(counts, state))
            over.add_metric([table, task], counts.over)
    yield gauge
    yield over


def _by_reason(tables: dict[str, TableStats]) -> Iterator[Metric]:
    counter = CounterMetricFamily("headrace_table_dropped", "Rows dropped.", labels=["table", "reason"])
    for table, figures in tables.items():
        for reason, count in figures.dropped.items():
            counter.add_metric([table, reason], count)
    yield counter


def _by_staleness(tables: dict[str, TableStats]) -> Iterator[Metric]:
    for name, text in _HISTOGRAMS.items():
        gauge = GaugeMetricFamily(f"headrace_table_{name}", text, labels=["table", "versions"])
        for table, figures in tables.items():
            for versions, count in sorted(getattr(figures, name).items()):
                gauge.add_metric([table, str(versions)], count)
        yield gauge
