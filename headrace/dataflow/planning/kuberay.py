"""A graph as objects of Kubernetes for KubeRay: its text in a ConfigMap, and a RayJob that runs it.

    reserves something ─► a worker group of its own, a pod for each replica
    reserves nothing   ─► the head's pod, beside the launcher and the queue

Invariant: the pods ask for what the graph reserves and for what the rest is reckoned to need; a resource of
Ray's that is named after the service binds each replica to its pod.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from headrace.dataflow.checks.placement import reserved
from headrace.dataflow.language.parse import to_yaml
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.dataflow.planning.memory import GIB, Memory, memory
from headrace.dataflow.planning.topology import services

GRAPH = PurePosixPath("/headrace/graph.yaml")
RUNS = PurePosixPath("/runs")
HEAD = "headrace-head"
"""Resource of the head's pod, that keeps there what reserves nothing."""
SPARE = 1.25
"""Of the memory that is reckoned with, since what the reckoning leaves out would end a pod."""


def manifest(spec: GraphSpec, *, image: str, claim: str) -> list[dict[str, Any]]:
    """`image`: has headrace and what the services need. `claim`: a PersistentVolumeClaim that many nodes may
    write to, for the run's directory."""
    own = {name: node for name, node in services(spec).items() if reserved(node.options)}
    bound = _bound(spec, own)
    needed = memory(bound)
    name = _name(spec.name)
    workers = [_group(each, bound.nodes[each], needed, image, claim, name) for each in own]
    command = f"headrace run {GRAPH} --output {RUNS / spec.name}"
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "entrypoint": command,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "headGroupSpec": _head(bound, own, needed, image, claim, name),
                **({"workerGroupSpecs": workers} if workers else {}),
            },
        },
    }
    text = {GRAPH.name: to_yaml(bound)}
    graph = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": text}
    return [graph, job]


def _bound(spec: GraphSpec, own: dict[str, NodeSpec]) -> GraphSpec:
    """The graph on the cluster that the manifest makes."""
    nodes = dict(spec.nodes)
    for name, node in services(spec).items():
        resource = f"headrace-{name}" if name in own else HEAD
        resources = {**node.options.resources, resource: 1}
        nodes[name] = replace(node, options=replace(node.options, resources=resources))
    return replace(spec, nodes=nodes, runtime="ray", ray_address="auto")


def _head(
    spec: GraphSpec, own: dict[str, NodeSpec], needed: Memory, image: str, claim: str, name: str
) -> dict[str, Any]:
    here = {each: node.options for each, node in services(spec).items() if each not in own}
    replicas = sum(options.replicas for options in here.values())
    cores = 1 + sum(options.replicas * (options.threads or 1) for options in here.values())
    size = sum(needed.of_service(each) * options.replicas for each, options in here.items())
    size += sum(needed.beside.values())
    limits = {"cpu": str(cores), "memory": _gibibytes(size)}
    start = {"dashboard-host": "0.0.0.0", "resources": _ray_resources({HEAD: max(replicas, 1)})}
    return {"rayStartParams": start, "template": _pod("ray-head", image, claim, name, limits)}


def _group(service: str, node: NodeSpec, needed: Memory, image: str, claim: str, name: str) -> dict[str, Any]:
    options = node.options
    shared = sum(size for part, size in needed.beside.items() if part.startswith("weights of"))
    limits = {
        "cpu": str(max(math.ceil(options.cpus), options.threads or 1)),
        "memory": _gibibytes(needed.of_service(service) + shared),
        **({"nvidia.com/gpu": str(math.ceil(options.gpus))} if options.gpus else {}),
    }
    return {
        "groupName": _name(service),
        "replicas": options.replicas,
        "minReplicas": options.replicas,
        "maxReplicas": options.replicas,
        "rayStartParams": {"resources": _ray_resources(options.resources)},
        "template": _pod("ray-worker", image, claim, name, limits),
    }


def _pod(container: str, image: str, claim: str, name: str, limits: dict[str, str]) -> dict[str, Any]:
    mounts = {"runs": str(RUNS), "graph": str(GRAPH.parent), "shared": "/dev/shm"}
    return {
        "spec": {
            "containers": [
                {
                    "name": container,
                    "image": image,
                    "workingDir": str(RUNS),
                    "resources": {"requests": limits, "limits": limits},
                    "volumeMounts": [{"name": each, "mountPath": path} for each, path in mounts.items()],
                }
            ],
            "volumes": [
                {"name": "runs", "persistentVolumeClaim": {"claimName": claim}},
                {"name": "graph", "configMap": {"name": name}},
                {"name": "shared", "emptyDir": {"medium": "Memory"}},
            ],
        }
    }


def _ray_resources(amounts: dict[str, float]) -> str:
    """As KubeRay hands it to `ray start`: JSON in quotes of a shell."""
    return json.dumps(json.dumps(amounts))


def _gibibytes(size: int) -> str:
    return f"{max(1, math.ceil(size * SPARE / GIB))}Gi"


def _name(text: str) -> str:
    """As Kubernetes has it: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "run"
