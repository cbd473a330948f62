"""Whole launches with rows that are dropped, shaped and kept on their way."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.dataflow.language.parse import parse
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch

GRAPH = """\
name: copy
steps: 2
runtime: local
no_progress_timeout_s: 120
max_restarts: 0
queue: {{durability: disk}}
policies:
  actor: {{model: tiny-copier}}
nodes:
  prompts: {{kind: source, dataset: {{kind: copy, letters: 2}}, samples_per_prompt: 4, threads: 1}}
  answers: {{kind: rollout, inputs: [prompts], policy: actor, engine: fake, max_new_tokens: 3, threads: 1,
            fake: {{answer: random, vocabulary: 6}}}}
  valid: {{kind: filter, inputs: [answers], function: "{mine}:valid", columns: [response_ids, example]}}
  scores: {{kind: reward, inputs: [answers], verifier: copy, column: base}}
  shaped: {{kind: transform, inputs: [valid, scores], function: "{mine}:{shaped}",
           columns: [base, base_parts], writes: {{reward: float64, exact: int8}}}}
  learn: {{kind: trainer, inputs: [answers, shaped], policy: actor, algorithm: grpo, prompts_per_step: 4,
          threads: 1}}
  kept: {{kind: sink, inputs: [shaped], columns: [base, reward, exact], format: parquet, rows_per_file: 20}}
  all: {{kind: sink, inputs: [answers], columns: [response_ids]}}
"""

FUNCTIONS = """
def valid(response_ids, example):
    return "begins with 3" if response_ids[0] == 3 else True

def shaped(base, base_parts):
    return {"reward": 2 * base, "exact": int(base_parts["exact"])}

def broken(base, base_parts):
    return {"reward": 2 * base}
"""


@pytest.fixture
def run(tmp_path: Path, shared: Path) -> Path:
    """A run directory to be."""
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    return tmp_path / "run"


def graph(run: Path, *overrides: str, shaped: str = "shaped") -> Any:
    return parse(GRAPH.format(mine=run.parent / "mine.py", shaped=shaped), overrides=overrides).spec


def records(run: Path, file: str) -> list[dict[str, Any]]:
    return list(read_jsonl(run / file).records)


def test_rows_are_dropped_shaped_and_kept_once_over_two_launches(run: Path) -> None:
    assert launch(graph(run), output=run) == 0
    assert launch(graph(run, "steps=4"), resume=run) == 0
    steps = [record for record in records(run, "metrics.jsonl") if "step" in record]
    assert [record["step"] for record in steps] == [0, 1, 2, 3]
    files = sorted((run / "sinks" / "kept").glob("part-*.parquet"))
    kept = [row for path in files for row in pq.read_table(path).to_pylist()]
    assert len({row["uid"] for row in kept}) == len(kept) >= sum(r["samples/trained"] for r in steps)
    assert max(pq.read_metadata(path).num_rows for path in files) <= 20
    assert all(row["reward"] == 2 * row["base"] and row["exact"] == 0 for row in kept)
    queue = [event for event in records(run, "events.jsonl") if event["event"] == "queue"][-1]
    assert queue["dropped"]["begins with 3"] > 0 and queue["violations"] == queue["lost"] == 0
    everything = [
        json.loads(line)
        for path in sorted((run / "sinks" / "all").glob("part-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    assert len({row["uid"] for row in everything}) == len(everything) >= len(kept)
    assert {row["uid"] for row in kept} <= {row["uid"] for row in everything if row["response_ids"][0] != 3}
    told = [record for record in records(run, "metrics.jsonl") if "filter/valid/passed" in record]
    assert told[-1]["filter/valid/dropped/begins_with_3"] > 0


def test_a_transform_that_fails_ends_the_run_with_its_reason(run: Path) -> None:
    assert launch(graph(run, shaped="broken"), output=run) == 1
    (cause,) = (event["cause"] for event in records(run, "events.jsonl") if event["event"] == "run_ended")
    assert "mine.py:broken gave the keys ['reward'] for row" in cause
    assert "`writes` declares reward, exact: return a mapping with exactly these keys" in cause
