"""The JSON Schema lets every dataflow pass that the parser lets pass, and refuses what a schema can see."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from omegaconf import OmegaConf

from headrace.dataflow.cli import main
from headrace.dataflow.language.parse import parse, to_yaml
from headrace.dataflow.language.problems import GraphError
from headrace.dataflow.language.schema import schema, schema_text
from headrace.dataflow.language.spec import OPTIONS, GraphSpec
from headrace.dataflow.language.start import STARTER
from tests.dataflow.language.specs import graphs
from tests.dataflow.test_broken_graphs import BROKEN, GOOD

VALIDATOR = Draft202012Validator(schema())
CONFIGS = sorted((Path(__file__).parents[3] / "configs").rglob("*.yaml"))
UNSEEN = (
    "not YAML",
    "cannot be resolved",
    "got nan",
    "allowed: finite",
    "the span must not end before it begins",
    "neither may be below 0",
)
"""Messages of faults that lie beyond one value: in the text, between values, or in no number of JSON."""


def faults(text: str) -> list[str]:
    tree: Any = OmegaConf.to_container(OmegaConf.create(text))
    return [f"{'.'.join(map(str, fault.path))}: {fault.message}" for fault in VALIDATOR.iter_errors(tree)]


def refusal(text: str) -> str:
    try:
        parse(text)
    except GraphError as error:
        return str(error)
    return ""


def test_it_is_a_schema_of_the_2020_12_draft() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", [STARTER, *CONFIGS], ids=lambda path: path.stem)
def test_a_shipped_file_is_valid(path: Path) -> None:
    assert faults(path.read_text()) == []


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(graphs(), st.booleans())
def test_what_the_engine_writes_is_valid(spec: GraphSpec, resolved: bool) -> None:
    assert faults(to_yaml(spec, resolved=resolved)) == []


@pytest.mark.parametrize(
    "broken",
    [each for each in BROKEN if "overrides" not in each and "by" in each],
    ids=lambda broken: broken["case"],
)
def test_a_broken_graph_is_refused_where_one_value_shows_it(broken: dict[str, Any]) -> None:
    text = GOOD.replace(broken.get("replace", GOOD), broken["by"])
    wrong = refusal(text)
    if not any(message in wrong for message in UNSEEN):
        assert bool(faults(text)) == bool(wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: {learn: {prompts_per_stp: 4}}", "nodes.learn: 'prompts_per_stp' is not one of"),
        (
            "nodes: {learn: {kind: trainer, threads: 0}}",
            "nodes.learn.threads: 0 is less than the minimum of 1",
        ),
        (
            "include: [{graph: a, sett: {}}]",
            "include.0: {'graph': 'a', 'sett': {}} is not valid under any of",
        ),
        ("polices: {}", ": Additional properties are not allowed ('polices' was unexpected)"),
        ("name: a b", "name: 'a b' does not match"),
    ],
)
def test_a_part_of_a_dataflow_is_checked_as_one(text: str, message: str) -> None:
    found = faults(text)
    assert any(message in fault for fault in found), found


@pytest.mark.parametrize(
    "text",
    [
        "include: [grpo_copy_cpu, {graph: fragments/copy_task, as: one, set: {learn.threads: 1}}]",
        "include: [base.yaml]\nname: mine\nnodes: {scores: null, learn: {algorithm: {clip_low: 0.1}}}",
        "nodes: {more: {kind: reward, verifier: copy}}",
        GOOD.replace("samples_per_prompt: 8", "samples_per_prompt: '${steps}'"),
        GOOD + "  own: {kind: 'nodes.py:Own', inputs: [answers], anything: 3}\n",
    ],
)
def test_what_a_file_may_be_passes(text: str) -> None:
    assert faults(text) == []


def test_every_key_has_its_help_default_and_bounds() -> None:
    trainer = schema()["$defs"]["trainer"]
    assert trainer["properties"]["prompts_per_step"] == {
        "type": ["integer", "string"],
        "minimum": 1,
        "pattern": r"\$\{",
        "description": "Groups in one training step.",
        "default": 32,
    }
    assert trainer["required"] == ["kind", "inputs", "policy", "algorithm"]
    assert {f"#/$defs/{kind}" for kind in OPTIONS} == {
        branch["then"]["$ref"] for branch in schema()["$defs"]["node"]["allOf"]
    }


def test_the_command_prints_it_or_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == schema_text()
    assert json.loads(schema_text()) == schema()
    assert main(["schema", "--output", str(tmp_path / "s.json")]) == 0
    assert (tmp_path / "s.json").read_text() == schema_text()
