"""What docs/graphs.md shows is true of the code: its file, both writings of its graph, a run of it."""

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from headrace.dataflow import Graph
from headrace.dataflow.check import check_here
from headrace.dataflow.cli import app
from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.rundir import read_jsonl
from headrace.dataflow.running.launch import launch
from headrace.services.kinds import KINDS

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


def test_the_first_graph_has_no_problem() -> None:
    assert check_here(parse(block("yaml", "name: copy-letters")).spec) == []


def test_the_table_of_kinds_has_every_kind() -> None:
    table = TEXT.partition("| kind | part |")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(first_cells))) == sorted(KINDS)


def test_what_it_shows_of_shipped_dataflows_stands_in_them() -> None:
    shown = yaml.safe_load(block("yaml", "as: short"))["include"]
    assert shown == yaml.safe_load((ROOT / "configs" / "grpo_routing_cpu.yaml").read_text())["include"]
    shipped = yaml.safe_load((ROOT / "configs" / "grpo_solver_verifier_cpu.yaml").read_text())["nodes"]
    for name, node in yaml.safe_load(block("yaml", "kind: join"))["nodes"].items():
        assert node.items() <= shipped[name].items(), name


def test_every_command_that_the_docs_name_is_one() -> None:
    known = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    for document in (ROOT / "docs").glob("*.md"):
        named = re.findall(r"headrace ([a-z]+)\b", " ".join(re.findall(r"`[^`]+`", document.read_text())))
        assert set(named) <= known, document


def test_every_link_of_the_docs_leads_to_a_file() -> None:
    for document in (ROOT / "docs").glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document}: {link}"


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
