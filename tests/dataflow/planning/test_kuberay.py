"""What is asked of Kubernetes for a graph."""

import json
from typing import Any

import pytest
import yaml

from headrace.dataflow.check import check
from headrace.dataflow.cli import main
from headrace.dataflow.language.parse import parse
from headrace.dataflow.planning.kuberay import manifest
from tests.dataflow.test_broken_graphs import GOOD

OVERRIDES = ["answers.cpus=3.5", "answers.replicas=2", "learn.resources={big: 1}", "learn.threads=6"]


def made(*overrides: str) -> tuple[dict[str, Any], dict[str, Any]]:
    graph, job = manifest(parse(GOOD, overrides=overrides).spec, image="me/headrace:1", claim="runs")
    return graph, job


def limits(group: dict[str, Any]) -> dict[str, str]:
    (container,) = group["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    return container["resources"]["limits"]


def resources(group: dict[str, Any]) -> dict[str, float]:
    return json.loads(json.loads(group["rayStartParams"]["resources"]))


def test_each_service_that_reserves_has_pods_of_its_own_and_the_head_has_the_rest() -> None:
    _, job = made(*OVERRIDES)
    cluster = job["spec"]["rayClusterSpec"]
    groups = {group["groupName"]: group for group in cluster["workerGroupSpecs"]}
    assert {name: group["replicas"] for name, group in groups.items()} == {"answers": 2, "learn": 1}
    assert [limits(groups[name])["cpu"] for name in ("answers", "learn")] == ["4", "6"]
    assert resources(groups["learn"]) == {"big": 1, "headrace-learn": 1}
    assert resources(cluster["headGroupSpec"]) == {"headrace-head": 2}
    assert limits(cluster["headGroupSpec"])["cpu"] == "3"


def test_what_the_graph_asks_for_the_pods_have() -> None:
    graph, job = made(*OVERRIDES)
    spec = parse(graph["data"]["graph.yaml"]).spec
    assert spec.ray_address == "auto"
    cluster = job["spec"]["rayClusterSpec"]
    there = dict(resources(cluster["headGroupSpec"]))
    for group in cluster["workerGroupSpecs"]:
        for name, amount in resources(group).items():
            there[name] = there.get(name, 0) + amount * group["replicas"]
    asked: dict[str, float] = {}
    for node in spec.nodes.values():
        for name, amount in node.options.resources.items():
            asked[name] = asked.get(name, 0) + amount * node.options.replicas
    assert asked == there
    assert check(spec) == []


def test_a_graph_that_reserves_nothing_runs_on_the_head_alone() -> None:
    _, job = made()
    cluster = job["spec"]["rayClusterSpec"]
    assert "workerGroupSpecs" not in cluster
    assert resources(cluster["headGroupSpec"]) == {"headrace-head": 4}
    assert job["spec"]["entrypoint"] == "headrace run /headrace/graph.yaml --output /runs/copy"


def test_every_pod_mounts_the_run_s_volume_and_memory() -> None:
    _, job = made(*OVERRIDES)
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounts == {"runs": "/runs", "graph": "/headrace", "shared": "/dev/shm"}
        assert {volume["name"] for volume in pod["volumes"]} == set(mounts)
        assert limits(group)["memory"].endswith("Gi")


def test_the_command_prints_two_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["k8s", "grpo_copy_cpu", "--image", "me/headrace:1", "--claim", "runs", "answers.cpus=2"]) == 0
    )
    graph, job = yaml.safe_load_all(capsys.readouterr().out)
    assert (graph["kind"], job["kind"]) == ("ConfigMap", "RayJob")
    assert graph["metadata"] == job["metadata"]


def test_a_graph_with_a_fault_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["k8s", "grpo_copy_cpu", "--image", "i", "--claim", "c", "answers.placement=pack"]
    assert main(command) == 2
    assert "a replica reserves nothing" in capsys.readouterr().err
