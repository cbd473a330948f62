"""A policy that leaves its type of numbers open gets that of the devices that run its model."""

import pytest
from rich.console import Console

from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.plan import plan
from headrace.dataflow.planning.plan_text import render
from headrace.dataflow.planning.precision import settled
from tests.dataflow.test_broken_graphs import GOOD


def spec(*overrides: str) -> GraphSpec:
    return parse(GOOD, file="g.yaml", overrides=overrides).spec


@pytest.mark.parametrize(
    ("overrides", "dtype"),
    [
        ((), "float32"),
        (("answers.gpus=1",), "float32"),
        (("answers.gpus=0.5", "learn.gpus=0.5"), "bfloat16"),
        (("answers.gpus=1", "learn.gpus=1", "actor.dtype=float32"), "float32"),
        (("actor.dtype=float64",), "float64"),
        (("answers.engine=fake", "answers.fake={}", "learn.gpus=1"), "bfloat16"),
    ],
)
def test_bfloat16_is_chosen_where_all_that_runs_the_model_has_gpus(
    overrides: tuple[str, ...], dtype: str
) -> None:
    assert settled(spec(*overrides)).policies["actor"].dtype == dtype


def test_every_service_is_told_the_same_and_the_plan_says_it() -> None:
    made = plan(spec("answers.gpus=0.5", "learn.gpus=0.5"), Cluster(cpus=2.0, gpus=1.0, cores=2))
    assert {service.policy.dtype for service in made.services} == {"bfloat16"}
    console = Console(width=110, record=True, file=None, quiet=True)
    with console.capture() as shown:
        console.quiet = False
        console.print(render(made))
    assert "model   tiny-copier in bfloat16 on GPUs in answers, learn" in shown.get()
