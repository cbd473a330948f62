"""Opens the trackers that a graph names, and says of each that fails, once, what it costs."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

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
FINISHING: Final = "trackers_finishing"
CLOSE_S: Final = 60.0
"""That the trackers have for what they were handed, once the run is over."""
PATIENCE_S: Final = 5.0
"""Of it, after which it is said that the launch waits."""


@contextmanager
def tracked(spec: GraphSpec, run: RunDir, telemetry: Telemetry) -> Iterator[None]:
    """Every record of `telemetry` goes to the graph's trackers too; at the end they finish what they have."""
    if not spec.trackers:
        yield
        return
    trackers = Trackers(len(spec.of_kind("trainer")), DirectReport(telemetry))
    home = {"run_dir": str(run.path), "name": spec.name, "graph": to_tree(spec, resolved=True)}
    for options in spec.trackers:
        trackers.open(options.kind, {"tracker": asdict(options), "home": home}, run)
    telemetry.follow(trackers.take)
    try:
        yield
    finally:
        trackers.close()


class Trackers:
    """The feeds of a launch, by kind."""

    def __init__(self, policies: int, report: Report) -> None:
        """`policies`: how many are trained."""
        self._feeds: dict[str, Feed] = {}
        self._points = Points(policies)
        self._report = report
        self._told: set[str] = set()

    def open(self, kind: str, opening: Mapping[str, Any], run: RunDir) -> None:
        """One whose process cannot be started has failed already."""
        try:
            self._feeds[kind] = Feed(opening, run.logs / f"tracker-{kind}.log")
        except OSError as error:
            self._tell(kind, str(error))

    def take(self, record: Record) -> None:
        point = self._points.of(record)
        if point is None:
            return
        for kind, feed in self._feeds.items():
            feed.offer(point)
            self._tell_failure(kind, feed)

    def close(self) -> None:
        """All finish at once; who waits for one that takes its time is told."""
        for feed in self._feeds.values():
            feed.finish()
        ends = time.monotonic() + CLOSE_S
        if slow := [kind for kind, feed in self._feeds.items() if not feed.ended(PATIENCE_S)]:
            self._report.event(FINISHING, trackers=slow, at_most_s=CLOSE_S)
        for kind, feed in self._feeds.items():
            feed.close(within_s=max(ends - time.monotonic(), 0.0))
            self._tell_failure(kind, feed)
            if feed.missed:
                self._report.event(
                    MISSED, tracker=kind, points=feed.missed, way_out="metrics.jsonl has every figure"
                )

    def _tell_failure(self, kind: str, feed: Feed) -> None:
        if kind not in self._told and (reason := feed.failure()) is not None:
            self._tell(kind, reason)

    def _tell(self, kind: str, reason: str) -> None:
        self._told.add(kind)
        self._report.event(
            FAILED,
            tracker=kind,
            reason=reason,
            way_out=f"the run goes on without it; see logs/tracker-{kind}.log",
        )
