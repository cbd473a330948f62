"""Every shipped dataflow is without a fault and has a plan, but for what it says must be made first."""

from pathlib import Path

import pytest
import yaml

from headrace.dataflow.check import check
from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.shipped import fragments, shipped
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.draw import draw_mermaid, draw_text
from headrace.dataflow.planning.drawing.svg import draw_svg
from headrace.dataflow.planning.plan import plan

CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))
FRAGMENTS = sorted((Path(__file__).parent.parent / "configs" / "fragments").glob("*.yaml"))
MADE_FIRST = {
    "opd_copy_cpu": [("policies", "student", "model"), ("policies", "master", "model")],
    "grpo_smollm2_arithmetic_cpu": [
        ("policies", "actor", "model"),
        ("nodes", "prompts", "dataset"),
        ("nodes", "scores", "verifier"),
    ],
}
"""Places where a dataflow names what another run or another package gives."""


@pytest.mark.parametrize("path", CONFIGS, ids=[path.stem for path in CONFIGS])
def test_a_shipped_dataflow_is_without_a_fault_and_has_a_plan(path: Path) -> None:
    spec = parse(path.read_text(), file=path.name).spec
    machine = Cluster(cpus=2.0, gpus=0.0, cores=2)
    wrong = [
        problem
        for problem in check(spec, cluster=machine)
        if problem.path not in MADE_FIRST.get(path.stem, ())
    ]
    assert wrong == []
    assert {service.node for service in plan(spec, machine).services} == set(spec.nodes)
    drawn = (draw_text(spec), draw_mermaid(spec), draw_svg(spec))
    assert all(name in text for text in drawn for name in spec.nodes)


@pytest.mark.parametrize("path", CONFIGS, ids=[path.stem for path in CONFIGS])
def test_a_shipped_dataflow_is_named_by_its_algorithm_task_and_place(path: Path) -> None:
    spec = parse(path.read_text()).spec
    algorithms = {trainer.options.algorithm.kind for trainer in spec.of_kind("trainer").values()}
    assert path.stem.split("_")[0] in algorithms
    assert path.stem.removesuffix("_cpu").replace("_", "-") == spec.name


@pytest.mark.parametrize("path", FRAGMENTS, ids=[path.stem for path in FRAGMENTS])
def test_a_fragment_is_a_part_and_no_run_of_its_own(path: Path) -> None:
    fragment = yaml.safe_load(path.read_text())
    assert fragment["nodes"]
    assert not {"name", "steps"} & set(fragment)


@pytest.mark.parametrize("path", CONFIGS, ids=[path.stem for path in CONFIGS])
def test_a_shipped_dataflow_includes_others_by_name_so_that_a_copy_of_it_runs(path: Path) -> None:
    known = {*shipped(), *fragments()}
    for entry in yaml.safe_load(path.read_text()).get("include", []):
        assert (entry if isinstance(entry, str) else entry["graph"]) in known
