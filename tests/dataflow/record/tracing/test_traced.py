"""Traces as replicas leave them, read from a run directory."""

import json
from pathlib import Path

import pytest

from headrace.dataflow.cli import main
from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.dataflow.record.tracing.read import Span, Traces, Visit
from headrace.dataflow.record.tracing.traced import traced
from headrace.services.trace import OLDER, trace_file

GRAPH = """\
name: copy
steps: 3
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy, samples_per_prompt: 2}
  answers: {kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 5}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 2}
"""


def visit(uid: int, leased: float, made: float) -> str:
    return json.dumps({"rows": [uid], "table": "prompts", "leased": leased, "made": made, "written": made})


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir.create("copy", tmp_path / "run")
    run.graph.write_text(GRAPH)
    (run.path / "trace").mkdir()
    said = {
        "prompts/0": ['{"put": [1, 2], "table": "prompts", "at": 10.0}'],
        "answers/0": [
            visit(1, 11.0, 12.0),
            '{"span": "process 2 rows", "began": 11.0, "ended": 12.0}',
            '{"span": "process 10 rows", "began": 13.0, "ended": 13.5}',
        ],
        "scores/0": [visit(1, 13.0, 14.0)],
        "learn/0": [visit(1, 15.0, 17.0), visit(1, 16.0, 18.0), '{"rows": [2], "ta'],
    }
    for replica, lines in said.items():
        trace_file(run.path, replica).write_text("\n".join(lines) + "\n")
    return run


def test_the_newest_visit_of_a_row_counts_and_torn_lines_are_counted(run: RunDir) -> None:
    found = Traces.read(run.path)
    assert found.visits == {
        ("prompts", 1): {
            "answers": Visit("answers/0", 11.0, 12.0, 12.0),
            "scores": Visit("scores/0", 13.0, 14.0, 14.0),
            "learn": Visit("learn/0", 16.0, 18.0, 18.0),
        }
    }
    assert found.puts == {("prompts", 1): 10.0, ("prompts", 2): 10.0}
    assert found.spans[0] == Span("answers/0", "process 2 rows", 11.0, 12.0)
    assert found.torn == 1


def test_a_run_is_summed_up_and_written_for_perfetto(run: RunDir) -> None:
    found = traced(run.path, most=10)
    assert (found.samples, found.shown, found.seconds, found.torn) == (1, 1, 8.0, 1)
    assert [(stage.name, stage.median_s, stage.share) for stage in found.stages] == [
        ("waits for answers", 1.0, 0.125),
        ("answers", 1.0, 0.125),
        ("waits for scores", 1.0, 0.125),
        ("scores", 1.0, 0.125),
        ("waits for learn", 2.0, 0.25),
        ("learn", 2.0, 0.25),
    ]
    assert found.work == {"answers/0": {"process N rows": 1.5}}
    written = json.loads((run.path / "trace.json").read_text())["traceEvents"]
    assert len([event for event in written if event["ph"] == "X"]) == 8


def test_the_file_has_so_many_samples_as_are_asked_for(run: RunDir, tmp_path: Path) -> None:
    found = traced(run.path, tmp_path / "t.json", most=0)
    assert (found.samples, found.shown) == (1, 0)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {1}


def test_an_older_file_is_of_the_same_replica(run: RunDir) -> None:
    file = trace_file(run.path, "answers/0")
    file.rename(file.with_suffix(OLDER))
    assert Traces.read(run.path).spans[0].replica == "answers/0"


def test_the_command_prints_where_the_time_went(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(run.path)]) == 0
    printed = capsys.readouterr().out
    assert "1 samples, median 8.000 s from put to commit; 1 torn lines passed over" in printed
    assert "waits for learn" in printed and "25.0%" in printed
    assert main(["trace", str(run.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] == 8.0


def test_a_run_without_traces_says_so(tmp_path: Path) -> None:
    run = RunDir.create("copy", tmp_path / "run")
    run.graph.write_text(GRAPH)
    with pytest.raises(RunDirError, match="has no traces in trace/"):
        traced(run.path, most=1)
