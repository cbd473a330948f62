from headrace.dataflow.record.tracing.lives import Life, Stage
from headrace.dataflow.record.tracing.perfetto import perfetto
from headrace.dataflow.record.tracing.read import Span


def test_replicas_and_tables_are_processes_and_times_count_from_the_first_moment() -> None:
    spans = [Span("answers/0", "load", 100.0, 100.5)]
    sample = Life(row=("prompts", 7), stages=(Stage("answers", 101.0, 101.25, "answers/0"),))
    made = perfetto(spans, [sample])
    names = {e["pid"]: e["args"]["name"] for e in made["traceEvents"] if e["name"] == "process_name"}
    assert names == {1: "answers/0", 2: "samples of prompts"}
    assert [e for e in made["traceEvents"] if e["ph"] == "X"] == [
        {"ph": "X", "name": "load", "ts": 0.0, "dur": 500000.0, "pid": 1, "tid": 0},
        {
            "ph": "X",
            "name": "answers",
            "ts": 1000000.0,
            "dur": 250000.0,
            "pid": 2,
            "tid": 0,
            "args": {"replica": "answers/0"},
        },
    ]
    assert {"ph": "M", "name": "thread_name", "pid": 2, "tid": 0, "args": {"name": "uid 7"}} in made[
        "traceEvents"
    ]


def test_spans_that_overlap_stand_on_tracks_of_their_own() -> None:
    times = {"a": (0.0, 4.0), "b": (1.0, 2.0), "c": (2.0, 3.0), "d": (2.5, 5.0), "e": (4.0, 6.0)}
    made = perfetto([Span("answers/0", what, *time) for what, time in times.items()], [])
    tracks = {e["name"]: e["tid"] for e in made["traceEvents"] if e["ph"] == "X"}
    assert tracks == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 0}


def test_a_trace_of_nothing_is_a_trace() -> None:
    assert perfetto([], []) == {"traceEvents": [], "displayTimeUnit": "ms"}
