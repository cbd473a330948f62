"""What docs/engines.md says is true of the code: it has every engine, and its graphs are checked."""

import re
from pathlib import Path

import pytest
import yaml

from headrace.dataflow.check import check
from headrace.dataflow.language.parse import parse
from headrace.services.rollout.engines import ENGINES

TEXT = (Path(__file__).parents[1] / "docs" / "engines.md").read_text()
GRAPH = (Path(__file__).parents[1] / "configs" / "grpo_copy_cpu.yaml").read_text()


def test_every_engine_has_its_line() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE) == list(ENGINES)


def test_the_nodes_that_it_shows_pass_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.dataflow.checks.engines.is_installed", lambda package: True)
    shown = re.findall(r"^answers: \{.*\}$", TEXT, flags=re.MULTILINE)
    assert len(shown) == 2
    for line in shown:
        graph = yaml.safe_load(GRAPH)
        graph["nodes"] |= yaml.safe_load(line)
        assert check(parse(yaml.safe_dump(graph)).spec) == []
