"""What docs/graphs.md shows is true of the code: its file, both writings of its graph, a run of it."""

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from headrace.dataflow import Graph
from headrace.dataflow.check import check_here
from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "graphs.md").read_text()
EXAMPLE = ROOT / "docs" / "examples" / "loudness.py"


def block(language: str, containing: str) -> str:
    (found,) = [
        text for text in re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL) if containing in text
    ]
    return found


def quiet(*overrides: str) -> GraphSpec:
    return parse(block("yaml", "name: quiet-copy"), overrides=overrides).spec


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_node_type_that_it_shows_is_the_file() -> None:
    assert block("python", "class Loudness") == EXAMPLE.read_text()


def test_both_writings_of_the_graph_are_the_same_and_have_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Graph] = []
    monkeypatch.setattr(Graph, "run", lambda graph: built.append(graph))
    exec(block("python", "graph.run()"), {})
    assert built[0].spec() == quiet()
    assert check_here(quiet()) == []


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["local", "ray"])
def test_the_graph_learns_from_what_the_users_own_node_and_transform_make(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, run = tmp_path / "shared", tmp_path / "run"
    shared.mkdir()
    monkeypatch.setattr("headrace.dataflow.running.launch.root", lambda: shared)
    kind = f"loudness.kind={EXAMPLE}:Loudness"
    assert launch(quiet(f"runtime={runtime}", kind, "learn.threads=1", "answers.threads=1"), output=run) == 0
    kept = pq.read_table(sorted((run / "sinks" / "kept").glob("part-*.parquet")))
    base, loudness, reward = (kept[name].to_numpy() for name in ("base", "loudness", "reward"))
    assert len(kept) >= 48 and np.array_equal(reward, base - 0.5 * loudness) and loudness.max() > 0
    expected = [
        sum(letter in "abc" for letter in text) / max(len(text), 1) for text in kept["response"].to_pylist()
    ]
    assert loudness.tolist() == expected
    steps = [line for line in read_jsonl(run / "metrics.jsonl").records if "step" in line]
    assert len(steps) == 3 and all(line["samples/trained"] == 16.0 for line in steps)
    first = reward[kept["version"].to_numpy() == 0]
    assert len(first) == 16 and steps[0]["reward/mean"] == pytest.approx(first.mean())
