"""Whether what replicas reserve has a place: each on some node of the cluster, and all of them in it."""

from collections.abc import Iterator, Mapping

from headrace.dataflow.language.problems import Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.topology import services
from headrace.services.options import Placed

OWN_KEYS = {"CPU": "cpus", "GPU": "gpus"}
"""Resources of Ray's that have keys of their own."""
TOLD = 8
"""Nodes that an error lists at most."""


def reserved(placed: Placed) -> dict[str, float]:
    """What one replica reserves, by Ray's names."""
    asked = {"CPU": placed.cpus, "GPU": placed.gpus, **placed.resources}
    return {name: amount for name, amount in asked.items() if amount}


def check_placement(spec: GraphSpec) -> Iterator[Problem]:
    """What cannot be reserved anywhere, or has nothing to go by."""
    for name, node in services(spec).items():
        for resource in OWN_KEYS.keys() & node.options.resources.keys():
            yield Problem(
                path=("nodes", name, "resources"),
                wrong=f"{resource} has a key of its own",
                way_out=f"set {OWN_KEYS[resource]}",
            )
        if spec.runtime == "ray" and node.options.placement and not reserved(node.options):
            yield Problem(
                path=("nodes", name, "placement"),
                wrong="a replica reserves nothing, so that there is nothing to place it by",
                way_out="set cpus, gpus or resources, or remove it",
            )
        if spec.runtime == "ray" and spec.ray_address is None and node.options.placement:
            yield Problem(
                path=("nodes", name, "placement"),
                wrong="no effect: all runs on this machine",
                way_out="remove it, or name a cluster: ray_address: auto",
                severity="warning",
            )


def check_nodes(spec: GraphSpec, cluster: Cluster) -> Iterator[Problem]:
    """Replicas that no node has room for, and resources that the cluster has not, or not so often."""
    if spec.runtime != "ray":
        return
    if spec.ray_address is None:
        yield from _not_embedded(spec)
    elif cluster.nodes:
        yield from _without_room(spec, cluster)


def _not_embedded(spec: GraphSpec) -> Iterator[Problem]:
    for name, node in services(spec).items():
        if node.options.resources:
            yield Problem(
                path=("nodes", name, "resources"),
                wrong=f"asked {', '.join(node.options.resources)}, which no cluster that is started here has",
                way_out="remove it, or name a cluster: ray_address: auto",
            )


def _without_room(spec: GraphSpec, cluster: Cluster) -> Iterator[Problem]:
    for name, node in services(spec).items():
        asked = reserved(node.options)
        if asked and not any(_fits(asked, there) for there in cluster.nodes):
            have = "; ".join(_said(_shown(there, asked)) or "none of it" for there in cluster.nodes[:TOLD])
            more = f" and {len(cluster.nodes) - TOLD} more" if len(cluster.nodes) > TOLD else ""
            yield Problem(
                path=("nodes", name),
                wrong=f"a replica reserves {_said(asked)}, and no node of the cluster has that; its nodes "
                f"have: {have}{more}",
                way_out="reserve less, or add a node that has it",
            )
    own = {resource for node in services(spec).values() for resource in node.options.resources}
    for resource in sorted(own - OWN_KEYS.keys()):
        asked_by = {
            name: node.options.replicas * node.options.resources[resource]
            for name, node in services(spec).items()
            if resource in node.options.resources
        }
        there = sum(each.get(resource, 0.0) for each in cluster.nodes)
        if 0 < there < sum(asked_by.values()):
            shares = ", ".join(f"{name} {amount:g}" for name, amount in asked_by.items())
            yield Problem(
                path=("nodes",),
                wrong=f"asked {sum(asked_by.values()):g} {resource}, the cluster has {there:g}, by service: "
                f"{shares}",
                way_out="lower replicas or resources",
            )


def _fits(asked: Mapping[str, float], there: Mapping[str, float]) -> bool:
    return all(there.get(name, 0.0) >= amount for name, amount in asked.items())


def _shown(there: Mapping[str, float], asked: Mapping[str, float]) -> dict[str, float]:
    return {name: there[name] for name in asked if there.get(name)}


def _said(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in amounts.items())
