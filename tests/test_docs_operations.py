"""The commands of docs/operations.md are commands, and its walk through a run can be walked."""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace.dataflow.cli import app
from headrace.dataflow.control.door import Door
from headrace.dataflow.record.rundir import read_jsonl
from tests.end_to_end.runs import ended, started, steps, until_recorded

TEXT = (Path(__file__).parent.parent / "docs" / "operations.md").read_text()
LAUNCHES = ("run", "resume")


def blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str = TEXT) -> Iterator[list[str]]:
    for block in blocks("bash", text):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "headrace":
                yield words[1:]


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_is_one(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    group = typer.main.get_command(app)
    name, command, rest = group.resolve_command(typer.Context(group), words)  # type: ignore[attr-defined]
    assert command is not None
    command.make_context(name, rest)


def test_every_command_that_the_table_names_is_one() -> None:
    named = set(re.findall(r"`headrace ([a-z]+)", TEXT))
    assert sorted(named - set(typer.main.get_command(app).commands)) == []  # type: ignore[attr-defined]


@pytest.mark.nightly
def test_the_walk_through_a_run_can_be_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    walk = TEXT.partition("## A walk through a run")[2].partition("\n## ")[0]
    Path("operated.yaml").write_text(f"{blocks('yaml', walk)[0]}runtime: local\n")
    latest, launched = Path("runs/latest"), []
    with ExitStack() as stack:
        for words in commands(walk):
            is_live = latest.exists() and Door.is_of_live(latest)
            if words[0] in LAUNCHES and not is_live:
                before = len(steps(latest))
                launched.append(stack.enter_context(started(*words[1:], command=words[0])))
                until_recorded(launched[-1], lambda before=before: len(steps(latest)) > before)
                continue
            result = CliRunner().invoke(app, words)
            assert result.exit_code in ((0, 1) if words[0] == "doctor" else (0,)), (words, result.exception)
            if words[0] == "stop":
                assert ended(launched[-1], latest).code == 130
    assert len(launched) == 2
    asks = [
        each["action"] for each in read_jsonl(latest / "events.jsonl").records if each["event"] == "asked"
    ]
    assert asks == [
        *("scale", "drain", "scale", "restart", "upgrade", "set staleness", "pause", "resume"),
        *("inject error", "inject full-disk", "inject lift", "stop", "stop"),
    ]
