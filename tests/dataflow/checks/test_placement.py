"""What a graph reserves against the nodes of a cluster."""

import pytest

from headrace.dataflow.check import check, check_here
from headrace.dataflow.language.parse import parse
from headrace.dataflow.planning.cluster import Cluster
from tests.dataflow.test_broken_graphs import GOOD

NODES = ({"CPU": 8.0, "disk": 2.0, "memory": 1.0}, {"CPU": 16.0, "side": 1.0})
CLUSTER = Cluster(cpus=24.0, gpus=0.0, cores=8, nodes=NODES)


def problems(*overrides: str, cluster: Cluster = CLUSTER) -> list[str]:
    spec = parse(GOOD, overrides=["ray_address=auto", *overrides]).spec
    return [str(problem) for problem in check(spec, cluster=cluster)]


@pytest.mark.parametrize(
    "overrides",
    [
        ["answers.resources={disk: 2}"],
        ["answers.cpus=16"],
        ["answers.cpus=10", "answers.resources={side: 1}", "answers.placement=spread"],
    ],
)
def test_what_a_node_has_may_be_reserved(overrides: list[str]) -> None:
    assert problems(*overrides) == []


def test_a_replica_that_fits_on_no_node_is_refused_with_what_they_have() -> None:
    assert problems("answers.cpus=10", "answers.resources={disk: 1}") == [
        "nodes.answers: a replica reserves 10 CPU, 1 disk, and no node of the cluster has that; its nodes "
        "have: 8 CPU, 2 disk; 16 CPU; reserve less, or add a node that has it"
    ]


def test_more_of_a_resource_than_the_cluster_has_is_refused_by_service() -> None:
    """A32."""
    assert problems("answers.resources={side: 0.5}", "answers.replicas=3", "learn.resources={side: 0.5}") == [
        "nodes: asked 2 side, the cluster has 1, by service: answers 1.5, learn 0.5; lower replicas or "
        "resources"
    ]


def test_a_resource_that_no_node_has_is_told_once() -> None:
    (problem,) = problems("answers.resources={fast: 1}")
    assert problem.startswith("nodes.answers: a replica reserves 1 fast, and no node of the cluster has that")


def test_many_nodes_are_not_all_listed() -> None:
    many = Cluster(cpus=10.0, gpus=0.0, cores=1, nodes=({"CPU": 1.0},) * 10)
    (problem,) = problems("answers.cpus=2", cluster=many)
    assert problem.count("1 CPU;") == 7
    assert "1 CPU and 2 more" in problem


def test_a_cluster_that_cannot_be_reached_is_a_warning() -> None:
    spec = parse(GOOD, overrides=["ray_address=127.0.0.1:1", "answers.cpus=80"]).spec
    assert [str(problem) for problem in check_here(spec)] == [
        "warning: ray_address: the cluster at 127.0.0.1:1 cannot be reached from here: what it has is not "
        "looked at; check on a node of it"
    ]
