"""Whether the trackers that a graph names can be opened on this machine."""

from collections.abc import Iterator

from headrace.dataflow.language.problems import Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.trackers.base import missing


def check_trackers(spec: GraphSpec) -> Iterator[Problem]:
    kinds = [tracker.kind for tracker in spec.trackers]
    for place, kind in enumerate(kinds):
        path = ("trackers", str(place))
        if kind in kinds[:place]:
            yield Problem(path=path, wrong=f"{kind} stands there twice", way_out="remove one")
        if (reason := missing(kind)) is not None:
            wrong, _, way_out = reason.partition("; ")
            yield Problem(path=path, wrong=wrong, way_out=way_out)
