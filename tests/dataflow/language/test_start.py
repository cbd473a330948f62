"""`headrace init`: what it writes is ready to run, and it writes over nothing."""

import json
from pathlib import Path

import pytest

from headrace.dataflow.cli import main
from headrace.dataflow.language.shipped import shipped


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_starter_is_ready_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    assert capsys.readouterr().out == "wrote dataflow.yaml\nnext: headrace check dataflow.yaml\n"
    assert main(["check", "dataflow.yaml"]) == 0
    assert capsys.readouterr() == ("dataflow.yaml: ready to run: 4 nodes, 1 policy, 400 steps\n", "")


def test_the_node_that_the_starter_leaves_out_can_be_put_in() -> None:
    main(["init", "mine.yaml"])
    text = Path("mine.yaml").read_text()
    head, _, node = text.partition("#   anchor:")
    node = "  anchor:" + node.replace("\n#  ", "\n")
    head = "\n".join(line for line in head.splitlines() if not line.startswith("# "))
    text = f"{head}\n{node}".replace("[answers, scores]", "[answers, scores, anchor]")
    Path("mine.yaml").write_text(text.replace("algorithm: grpo ", "algorithm: {kind: grpo, kl_coef: 0.05} "))
    assert main(["check", "mine.yaml"]) == 0


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_dataflow_is_copied_as_it_stands(name: str) -> None:
    assert main(["init", "mine.yaml", "--from", name]) == 0
    assert Path("mine.yaml").read_text() == shipped()[name].read_text()
    assert main(["draw", "mine.yaml"]) == 0


def test_the_schema_lies_beside_it_where_an_editor_looks() -> None:
    assert main(["init", "mine.yaml", "--schema"]) == 0
    first, second = Path("mine.yaml").read_text().splitlines()[:2]
    assert first == "# yaml-language-server: $schema=dataflow.schema.json"
    assert second.startswith("# A dataflow")
    assert json.loads(Path("dataflow.schema.json").read_text())["title"] == "Headrace dataflow"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init", "there.yaml"], "there.yaml is there already; give the name of a new file, or remove it"),
        (["init", "no/a.yaml"], "there is no folder no; make it, or give another file"),
        (["init", "a.yaml", "--from", "grpo_copy"], "there is no shipped dataflow 'grpo_copy' (allowed: "),
    ],
)
def test_what_cannot_be_started_is_refused(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("there.yaml").write_text("mine")
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)
    assert [path.name for path in folder.iterdir()] == ["there.yaml"]
    assert Path("there.yaml").read_text() == "mine"
