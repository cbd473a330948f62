"""The text that Prometheus reads of a launch; docs/metrics.md lists every name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from headrace.dataflow.record.board import Board, Standing
from headrace.dataflow.record.prometheus.newest import Newest
from headrace.services.clock import ACTIVITIES, ALIVE
from headrace.services.lifecycle import State
from headrace.transferqueue import Stats
from headrace.transferqueue.server.prometheus import prometheus_text

ROWS_DONE: Final = "rows_done"
IN_FLIGHT: Final = "in_flight"
OWN: Final = frozenset({*ACTIVITIES, ALIVE, ROWS_DONE, IN_FLIGHT})
"""Figures of a replica that have a family of their own."""
REPLICA: Final = ("service", "replica")


def exposition(board: Board, newest: Newest, stats: Stats, asked: Mapping[str, int]) -> str:
    """Of a whole launch. `asked`: steps by policy."""
    return _text(_Launch(board, newest, asked)) + prometheus_text(stats)


def of_service(board: Board, newest: Newest, node: str) -> str:
    """Of the replicas of one service."""
    return _text(_Replicas(board.standings(), newest, node))


def _text(collector: Collector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


class _Launch(Collector):
    def __init__(self, board: Board, newest: Newest, asked: Mapping[str, int]) -> None:
        self._board, self._newest, self._asked = board, newest, asked

    def collect(self) -> Iterator[Metric]:
        yield from _training(self._newest, self._board.steps(), self._asked)
        yield from _evals(self._newest)
        yield from _Replicas(self._board.standings(), self._newest, None).collect()


class _Replicas(Collector):
    def __init__(self, standings: Sequence[Standing], newest: Newest, node: str | None) -> None:
        """`node`: None for all."""
        self._standings = [each for each in standings if node in (None, _node(each.replica))]
        self._newest, self._node = newest, node

    def collect(self) -> Iterator[Metric]:
        yield from _standing(self._standings)
        yield from _doing(self._standings, self._newest)
        events = CounterMetricFamily("headrace_events", "Events of this launch.", labels=["source", "event"])
        for (source, kind), count in sorted(self._newest.events.items()):
            if self._node in (None, _node(source)):
                events.add_metric([source, kind], count)
        yield events


def _training(newest: Newest, done: Mapping[str, int], asked: Mapping[str, int]) -> Iterator[Metric]:
    step = GaugeMetricFamily("headrace_step", "Training steps done.", labels=["policy"])
    of = GaugeMetricFamily("headrace_steps_asked", "Training steps of the run.", labels=["policy"])
    for policy, steps in asked.items():
        step.add_metric([policy], done.get(policy, 0))
        of.add_metric([policy], steps)
    figures = GaugeMetricFamily(
        "headrace_training", "Figures of the last training step.", labels=["policy", "figure"]
    )
    for policy, body in newest.steps.items():
        for name, value in _numbers(body):
            figures.add_metric([policy, name], value)
    seconds = SummaryMetricFamily("headrace_step_seconds", "Of a training step.", labels=["policy"])
    samples = CounterMetricFamily("headrace_trained_samples", "Samples trained on.", labels=["policy"])
    tokens = CounterMetricFamily("headrace_trained_tokens", "Answer tokens trained on.", labels=["policy"])
    for policy, total in newest.trained.items():
        seconds.add_metric([policy], total.steps, total.seconds)
        samples.add_metric([policy], total.samples)
        tokens.add_metric([policy], total.tokens)
    yield from (step, of, figures, seconds, samples, tokens)


def _evals(newest: Newest) -> Iterator[Metric]:
    versions = GaugeMetricFamily("headrace_eval_version", "Scored last.", labels=["eval", "policy"])
    figures = GaugeMetricFamily("headrace_eval", "Of that version.", labels=["eval", "policy", "figure"])
    for (node, policy), (version, body) in newest.evals.items():
        versions.add_metric([node, policy], version)
        for name, value in _numbers(body):
            figures.add_metric([node, policy, name.removeprefix(f"eval/{node}/")], value)
    yield from (versions, figures)


def _standing(standings: Sequence[Standing]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "headrace_replica_state", "1 for the state that it is in.", labels=[*REPLICA, "state"]
    )
    share = GaugeMetricFamily(
        "headrace_replica_time_share", "Of its time since its start.", labels=[*REPLICA, "activity"]
    )
    for each in standings:
        labels = [_node(each.replica), each.replica]
        for one in State:
            state.add_metric([*labels, one.value], float(each.state is one))
        for activity, value in (each.shares or {}).items():
            share.add_metric([*labels, activity], value)
    yield from (state, share)


def _doing(standings: Sequence[Standing], newest: Newest) -> Iterator[Metric]:
    starts = CounterMetricFamily("headrace_replica_starts", "Lives begun in this launch.", labels=REPLICA)
    spent = CounterMetricFamily(
        "headrace_replica_seconds", "Of its life, by activity.", labels=[*REPLICA, "activity"]
    )
    rows = CounterMetricFamily("headrace_replica_rows", "Rows written in its life.", labels=REPLICA)
    held = GaugeMetricFamily("headrace_replica_in_flight", "Rows leased now.", labels=REPLICA)
    figures = GaugeMetricFamily(
        "headrace_replica", "What else it says of itself.", labels=[*REPLICA, "figure"]
    )
    for replica in (each.replica for each in standings):
        labels, body = [_node(replica), replica], newest.replicas.get(replica, {})
        starts.add_metric(labels, newest.starts[replica])
        if replica in newest.spent:
            for activity, seconds in newest.spent[replica].seconds.items():
                spent.add_metric([*labels, activity], seconds)
        for family, name in ((rows, ROWS_DONE), (held, IN_FLIGHT)):
            if name in body:
                family.add_metric(labels, body[name])
        for name, value in _numbers(body):
            if name not in OWN:
                figures.add_metric([*labels, name], value)
    yield from (starts, spent, rows, held, figures)


def _numbers(body: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    return ((name, float(value)) for name, value in sorted(body.items()) if isinstance(value, int | float))


def _node(replica: str) -> str:
    return replica.partition("/")[0]
