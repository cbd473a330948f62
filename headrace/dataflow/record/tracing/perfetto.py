"""A trace for https://ui.perfetto.dev and chrome://tracing, in the Trace Event Format of JSON.

Each replica is a process, with as many tracks as things that it did at once; each table is one, with a track
for a sample. Microseconds since the first moment.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from headrace.dataflow.record.tracing.lives import Life
from headrace.dataflow.record.tracing.read import Span

Event = dict[str, Any]


def perfetto(spans: Sequence[Span], samples: Sequence[Life]) -> dict[str, Any]:
    """One object, to be written as JSON."""
    start = min([*(s.began for s in spans), *(life.stages[0].began for life in samples)], default=0.0)
    replicas = sorted({span.replica for span in spans})
    tables = sorted({life.row[0] for life in samples})
    events: list[Event] = []
    for number, name in enumerate([*replicas, *(f"samples of {table}" for table in tables)], 1):
        events += _named(number, name)
    for number, replica in enumerate(replicas, 1):
        events += _lanes((span for span in spans if span.replica == replica), number, start)
    for number, table in enumerate(tables, 1 + len(replicas)):
        for track, life in enumerate(life for life in samples if life.row[0] == table):
            events += _life(life, number, track, start)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _named(process: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}


def _lanes(spans: Iterable[Span], process: int, start: float) -> Iterator[Event]:
    """Spans that overlap stand on tracks of their own, the lowest that is free."""
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for span in sorted(spans, key=lambda each: (each.began, -each.ended)):
        while busy and busy[0][0] <= span.began:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (span.ended, lane))
        yield _slice(span.what, span.began, span.ended, process, lane, start)


def _life(life: Life, process: int, track: int, start: float) -> Iterator[Event]:
    name = {"name": f"uid {life.row[1]}"}
    yield {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": name}
    for stage in life.stages:
        made = _slice(stage.name, stage.began, stage.ended, process, track, start)
        yield {**made, "args": {"replica": stage.replica}} if stage.replica else made


def _slice(name: str, began: float, ended: float, process: int, track: int, start: float) -> Event:
    return {
        "ph": "X",
        "name": name,
        "ts": round((began - start) * 1e6, 3),
        "dur": round((ended - began) * 1e6, 3),
        "pid": process,
        "tid": track,
    }
