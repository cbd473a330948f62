"""Every shipped dataflow is without a fault and has a plan, but for what it says must be made first."""

from pathlib import Path

import pytest

from headrace.dataflow.check import check
from headrace.dataflow.language.parse import parse
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.draw import draw_text
from headrace.dataflow.planning.plan import plan

CONFIGS = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))
MADE_FIRST = {
    "opd_copy_cpu": [("policies", "master", "model")],
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
    assert all(name in draw_text(spec) for name in spec.nodes)


@pytest.mark.parametrize("path", CONFIGS, ids=[path.stem for path in CONFIGS])
def test_a_shipped_dataflow_is_named_by_its_algorithm_task_and_place(path: Path) -> None:
    spec = parse(path.read_text()).spec
    (trainer,) = spec.of_kind("trainer").values()
    assert path.stem.split("_")[0] == trainer.options.algorithm.kind  # pyright: ignore[reportAttributeAccessIssue]
    assert path.stem.removesuffix("_cpu").replace("_", "-") == spec.name
