"""An existing Ray cluster: whether it answers, and what its nodes have. Ray is imported only to ask it."""

import logging
import socket
from contextlib import suppress

from headrace.dataflow.language.problems import Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster, this_machine

CONNECT_TIMEOUT_S = 10.0


class Unreachable(Exception):
    """Says why."""


def require_listening(address: str) -> None:
    """Raises OSError where nobody listens at HOST:PORT, for which Ray itself would take minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()


def cluster_at(address: str) -> Cluster:
    """What the living nodes of a cluster have, in use or not. Raises Unreachable."""
    import ray
    from ray.exceptions import RayError

    from headrace.dataflow.running.interrupts import kept_signals

    try:
        require_listening(address)
        with kept_signals():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        nodes = tuple(dict(node["Resources"]) for node in ray.nodes() if node["Alive"])
    except (RayError, OSError, RuntimeError, ValueError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error
    finally:
        ray.shutdown()
    cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    return Cluster(
        cpus=sum(node.get("CPU", 0.0) for node in nodes),
        gpus=sum(node.get("GPU", 0.0) for node in nodes),
        cores=min(cores, default=1),
        nodes=nodes,
    )


def cluster_of(spec: GraphSpec) -> tuple[Cluster, list[Problem]]:
    """What a graph would run on. A cluster that cannot be reached from here is a warning, and this machine
    stands for it."""
    if spec.ray_address is None or spec.runtime == "local":
        return this_machine(), []
    with suppress(Unreachable):
        return cluster_at(spec.ray_address), []
    unknown = Problem(
        path=("ray_address",),
        wrong=f"the cluster at {spec.ray_address} cannot be reached from here: what it has is not looked at",
        way_out="check on a node of it",
        severity="warning",
    )
    return this_machine(), [unknown]
