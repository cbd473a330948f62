"""Opens the trackers that a graph names, and says of each that fails, once, what it costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.language.tree import to_tree
from headrace.dataflow.record.rundir import RunDir
from headrace.dataflow.record.telemetry import Record, Telemetry
from headrace.dataflow.record.trackers.feed import Feed
from headrace.dataflow.record.trackers.points import Points
from headrace.dataflow.running.observe import DirectReport
from headrace.services.base import Report

FAILED: Final = "tracker_failed"
MISSED: Final = "tracker_missed"


@contextmanager
def tracked(spec: GraphSpec, run: RunDir, telemetry: Telemetry) -> Iterator[None]:
    """Every record of `telemetry` goes to the graph's trackers too; at the end they finish what they have."""
    if not spec.trackers:
        yield
        return
    home = {"run_dir": str(run.path), "name": spec.name, "graph": to_tree(spec, resolved=True)}
    feeds = {
        options.kind: Feed(
            {"tracker": asdict(options), "home": home}, run.logs / f"tracker-{options.kind}.log"
        )
        for options in spec.trackers
    }
    trackers = Trackers(feeds, len(spec.of_kind("trainer")), DirectReport(telemetry))
    telemetry.follow(trackers.take)
    try:
        yield
    finally:
        trackers.close()


class Trackers:
    """The feeds of a launch, by kind."""

    def __init__(self, feeds: dict[str, Feed], policies: int, report: Report) -> None:
        self._feeds = feeds
        self._points = Points(policies)
        self._report = report
        self._told: set[str] = set()

    def take(self, record: Record) -> None:
        point = self._points.of(record)
        if point is None:
            return
        for kind, feed in self._feeds.items():
            feed.offer(point)
            self._tell_failure(kind, feed)

    def close(self) -> None:
        for kind, feed in self._feeds.items():
            feed.close()
            self._tell_failure(kind, feed)
            if feed.missed:
                self._report.event(
                    MISSED, tracker=kind, points=feed.missed, way_out="metrics.jsonl has every figure"
                )

    def _tell_failure(self, kind: str, feed: Feed) -> None:
        if kind in self._told or (reason := feed.failure()) is None:
            return
        self._told.add(kind)
        self._report.event(
            FAILED,
            tracker=kind,
            reason=reason,
            way_out=f"the run goes on without it; see logs/tracker-{kind}.log",
        )
