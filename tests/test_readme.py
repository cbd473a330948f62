"""What the README shows is true of the code: its dataflow, its builder, its commands and its tree."""

import re
import shlex
from pathlib import Path

import pytest

from headrace.dataflow import Graph
from headrace.dataflow.check import check_here
from headrace.dataflow.cli import main
from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.problems import errors

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_yaml_and_the_builder_write_the_same_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Graph] = []
    monkeypatch.setattr(Graph, "run", lambda graph: built.append(graph))
    exec(blocks("python")[0], {})
    spec = parse(blocks("yaml")[0]).spec
    assert built[0].spec() == spec
    assert errors(check_here(spec)) == []


@pytest.mark.parametrize("command", ["check", "plan", "draw", "keys"])
def test_a_command_of_the_readme_works(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.partition("#")[0] for block in blocks("") for line in block.splitlines()]
    (words,) = [shlex.split(line)[1:] for line in lines if line.startswith(f"headrace {command} ")]
    words = [word.replace("my.yaml", str(ROOT / "configs" / "grpo_copy_cpu.yaml")) for word in words]
    assert main(words) == 0
    assert capsys.readouterr().out


def test_every_file_and_folder_that_the_readme_names_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    paths = re.findall(r"`((?:headrace|tests)/[^`]+)`", README)
    missing = [name for name in links + paths if not (ROOT / name).exists()]
    assert missing == []
